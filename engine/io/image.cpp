#include "engine/io/image.hpp"

#include <png.h>
#include <turbojpeg.h>

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <span>

#include "engine/io/file.hpp"
#include "engine/io/inflate.hpp"

namespace backbeat {

namespace {

constexpr int64_t largest_side = 1 << 15;
using Bytes = std::span<const uint8_t>;

void check_side(const char* where, const std::string& path, int64_t width, int64_t height) {
  if (width < 1 || height < 1 || width > largest_side || height > largest_side)
    fail(where, path, ": expected 1 to ", largest_side, " pixels a side, got ", width, " x ", height);
}

// libpng reports an error by a long jump. It lands in the member function that called libpng, which holds nothing that
// would need a destructor, and becomes `false` there.
class PngReader {
 public:
  explicit PngReader(Bytes file) : left_(file) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, on_warning);
    info_ = png_ ? png_create_info_struct(png_) : nullptr;
    if (!info_) {
      png_destroy_read_struct(&png_, nullptr, nullptr);
      throw std::bad_alloc();
    }
  }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }

  bool read_header() {
    if (setjmp(png_jmpbuf(png_))) return false;
    png_set_read_fn(png_, this, on_read);
    png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // the caller's limit says more
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);  // nor texts, times and profiles
    png_read_info(png_, info_);
    width = png_get_image_width(png_, info_);
    height = png_get_image_height(png_, info_);
    depth = png_get_bit_depth(png_, info_);
    file_row_bytes = static_cast<int64_t>(png_get_rowbytes(png_, info_));
    return true;
  }
  bool set_up_rows() {
    if (setjmp(png_jmpbuf(png_))) return false;
    png_set_expand(png_);  // palettes, few bits, and a transparent colour to samples of 8 bits
    passes_ = png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    channels = png_get_channels(png_, info_);
    row_bytes = static_cast<int64_t>(png_get_rowbytes(png_, info_));
    return true;
  }
  bool read_rows(uint8_t* to) {
    if (setjmp(png_jmpbuf(png_))) return false;
    for (int pass = 0; pass < passes_; ++pass)
      for (int64_t y = 0; y < height; ++y) png_read_row(png_, to + y * row_bytes, nullptr);
    png_read_end(png_, nullptr);
    return true;
  }
  int64_t left() const { return static_cast<int64_t>(left_.size()); }

  int64_t width = 0, height = 0, depth = 0, channels = 0, file_row_bytes = 0, row_bytes = 0;
  char message[128] = {};

 private:
  static void on_error(png_structp png, png_const_charp text) {
    auto* reader = static_cast<PngReader*>(png_get_error_ptr(png));
    std::snprintf(reader->message, sizeof reader->message, "%s", text);
    png_longjmp(png, 1);
  }
  static void on_warning(png_structp, png_const_charp) {}
  static void on_read(png_structp png, png_bytep to, size_t count) {
    auto* reader = static_cast<PngReader*>(png_get_io_ptr(png));
    if (count > reader->left_.size()) png_error(png, "the file is cut off");
    std::memcpy(to, reader->left_.data(), count);
    reader->left_ = reader->left_.subspan(count);
  }

  Bytes left_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  int passes_ = 1;
};

Array read_png_file(const std::string& path, Bytes file) {
  PngReader png(file);
  if (!png.read_header()) fail("png", path, ": expected a PNG file, got a damaged one (", png.message, ")");
  check_side("png", path, png.width, png.height);
  if (png.depth == 16) fail("png", path, ": expected at most 8 bits a sample, got 16");
  if (png.file_row_bytes * png.height / largest_inflation > static_cast<int64_t>(file.size()))
    fail("png", path, ": expected pixels that a file of ", file.size(), " bytes can hold, got ", png.width, " x ",
         png.height);
  if (!png.set_up_rows()) fail("png", path, ": expected a PNG file, got a damaged one (", png.message, ")");
  Array out(DType::u8, {png.height, png.width, png.channels});
  if (png.row_bytes != png.width * png.channels) fail("png", path, ": expected samples of 8 bits, got others");
  if (!png.read_rows(out.data<uint8_t>()))
    fail("png", path, ": expected a complete PNG file, got a damaged one (", png.message, ")");
  if (png.left() > 0) fail("png", path, ": expected the end of the PNG file, got ", png.left(), " bytes more");
  return out;
}

Array read_jpeg_file(const std::string& path, Bytes file) {
  const std::unique_ptr<void, int (*)(tjhandle)> decoder(tjInitDecompress(), tjDestroy);
  if (!decoder) throw std::bad_alloc();
  const auto size = static_cast<unsigned long>(file.size());
  const auto damaged = [&] {
    fail("jpeg", path, ": expected a complete JPEG file, got a damaged one (", tjGetErrorStr2(decoder.get()), ")");
  };
  int width = 0, height = 0, subsampling = 0, colours = 0;
  if (tjDecompressHeader3(decoder.get(), file.data(), size, &width, &height, &subsampling, &colours) != 0) damaged();
  check_side("jpeg", path, width, height);
  if (colours == TJCS_CMYK || colours == TJCS_YCCK) fail("jpeg", path, ": expected grey or RGB, got CMYK");
  // Each block of 8 x 8 brightnesses costs a bit at least, the shortest code of its mean.
  const int64_t blocks = ((int64_t{width} + 7) / 8) * ((int64_t{height} + 7) / 8);
  if (blocks / 8 > static_cast<int64_t>(file.size()))
    fail("jpeg", path, ": expected pixels that a file of ", file.size(), " bytes can hold, got ", width, " x ", height);
  const bool grey = colours == TJCS_GRAY;
  Array out(DType::u8, {height, width, grey ? 1 : 3});
  if (tjDecompress2(decoder.get(), file.data(), size, out.data<uint8_t>(), width, 0, height, grey ? TJPF_GRAY : TJPF_RGB,
                    TJFLAG_ACCURATEDCT | TJFLAG_STOPONWARNING | TJFLAG_LIMITSCANS) != 0)
    damaged();
  return out;
}

}  // namespace

Array read_image(const std::string& path) {
  constexpr uint8_t png_mark[] = {0x89, 'P', 'N', 'G'}, jpeg_mark[] = {0xff, 0xd8};
  const std::vector<uint8_t> file = read_file("image", path);
  const auto begins = [&](Bytes mark) {
    return file.size() >= mark.size() && std::equal(mark.begin(), mark.end(), file.begin());
  };
  if (begins(png_mark)) return read_png_file(path, file);
  if (begins(jpeg_mark)) return read_jpeg_file(path, file);
  fail("image", path, ": expected a PNG or JPEG file, got other bytes");
}

}  // namespace backbeat

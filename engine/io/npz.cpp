#include "engine/io/npz.hpp"

#include <zlib.h>

#include <algorithm>
#include <deque>
#include <set>
#include <span>

#include "engine/io/declared.hpp"
#include "engine/io/file.hpp"
#include "engine/io/inflate.hpp"
#include "engine/io/npy.hpp"

namespace backbeat {

namespace {

// PKWARE's APPNOTE.TXT, 4.3: a header before each member, a directory after them, and a record that ends the file.
constexpr uint32_t local_mark = 0x04034b50, directory_mark = 0x02014b50, end_mark = 0x06054b50;
constexpr int64_t local_bytes = 30, directory_bytes = 46, end_bytes = 22;
constexpr uint32_t stored = 0, deflated = 8;
constexpr uint32_t encrypted_flag = 1, utf8_flag = 1 << 11;
constexpr int64_t largest_number = UINT32_MAX - 1, largest_count = UINT16_MAX - 1;  // the last ones mean zip64
constexpr uint32_t first_date = 0x21;  // 1 January 1980
constexpr std::string_view ending = ".npy";

using Bytes = std::span<const uint8_t>;

uint32_t u16(Bytes bytes, int64_t at) {
  const size_t i = static_cast<size_t>(at);
  return bytes[i] | static_cast<uint32_t>(bytes[i + 1]) << 8;
}
uint32_t u32(Bytes bytes, int64_t at) { return u16(bytes, at) | u16(bytes, at + 2) << 16; }
std::string text_at(Bytes bytes, int64_t at, int64_t count) {
  return std::string(reinterpret_cast<const char*>(bytes.data()) + at, static_cast<size_t>(count));
}

struct Directory {
  int64_t begin = 0, end = 0, count = 0;
};

Directory find_directory(const std::string& path, Bytes file) {
  const int64_t size = static_cast<int64_t>(file.size());
  for (int64_t at = size - end_bytes; at >= std::max<int64_t>(0, size - end_bytes - UINT16_MAX); --at) {
    if (u32(file, at) != end_mark || at + end_bytes + u16(file, at + 20) != size) continue;  // a comment may follow
    const int64_t bytes = u32(file, at + 12), begin = u32(file, at + 16), count = u16(file, at + 10);
    if (count > largest_count || bytes > largest_number || begin > largest_number)
      fail("npz", path, ": expected an archive below 4 GiB, got a zip64 one");
    if (u32(file, at + 4) != 0 || u16(file, at + 8) != count || begin + bytes != at)
      fail("npz", path, ": expected a directory of ", bytes, " bytes at byte ", begin, ", before the end record at ", at);
    return {begin, at, count};
  }
  fail("npz", path, ": expected a zip archive, got a file of ", size, " bytes without the end record of one");
}

struct Member {
  std::string name;  // with its ending
  uint32_t flags = 0, method = 0, checksum = 0;
  int64_t packed_bytes = 0, bytes = 0, local = 0;
};

std::vector<Member> read_directory(const std::string& path, Bytes file, const Directory& directory) {
  std::vector<Member> members;
  std::set<std::string> names;
  int64_t at = directory.begin, packed_bytes = 0;
  for (int64_t i = 0; i < directory.count; ++i) {
    if (directory.end - at < directory_bytes || u32(file, at) != directory_mark)
      fail("npz", path, ": expected ", directory.count, " entries in the directory, got ", i);
    Member m;
    m.flags = u16(file, at + 8);
    m.method = u16(file, at + 10);
    m.checksum = u32(file, at + 16);
    m.packed_bytes = u32(file, at + 20);
    m.bytes = u32(file, at + 24);
    m.local = u32(file, at + 42);
    const int64_t name_bytes = u16(file, at + 28), more_bytes = u16(file, at + 30) + u16(file, at + 32);
    at += directory_bytes;
    if (directory.end - at < name_bytes + more_bytes)
      fail("npz", path, ": expected ", directory.count, " entries in the directory, got ", i);
    m.name = text_at(file, at, name_bytes);
    at += name_bytes + more_bytes;
    if (!m.name.ends_with(ending)) fail("npz", path, ": expected members NAME.npy, got ", quoted(m.name));
    if (!names.insert(m.name).second) fail("npz", path, ": expected each name once, got ", quoted(m.name), " twice");
    packed_bytes += m.packed_bytes;
    members.push_back(std::move(m));
  }
  if (at != directory.end)
    fail("npz", path, ": expected ", directory.count, " entries in the directory, got ", directory.end - at, " bytes more");
  // Members that share bytes could unpack to the square of the file's size.
  if (packed_bytes > directory.begin)
    fail("npz", path, ": expected members of at most ", directory.begin, " bytes, got ", packed_bytes);
  return members;
}

Bytes packed(const std::string& name, Bytes file, const Directory& directory, const Member& m) {
  if (m.flags & encrypted_flag) fail("npz", name, ": expected a member without a password, got an encrypted one");
  if (m.method != stored && m.method != deflated)
    fail("npz", name, ": expected a stored or deflated member, got zip method ", m.method);
  if (m.packed_bytes > largest_number || m.bytes > largest_number || m.local > largest_number)
    fail("npz", name, ": expected a member below 4 GiB, got a zip64 one");
  const int64_t room = directory.begin - m.local - local_bytes, name_bytes = static_cast<int64_t>(m.name.size());
  if (room < name_bytes || u32(file, m.local) != local_mark || u16(file, m.local + 26) != name_bytes ||
      text_at(file, m.local + local_bytes, name_bytes) != m.name)
    fail("npz", name, ": expected the member at byte ", m.local, ", got something else");
  const int64_t before = name_bytes + u16(file, m.local + 28);
  if (room - before < m.packed_bytes)
    fail("npz", name, ": expected ", m.packed_bytes, " bytes, got ", std::max<int64_t>(0, room - before));
  return file.subspan(static_cast<size_t>(m.local + local_bytes + before), static_cast<size_t>(m.packed_bytes));
}

// Inflated only as far as the header, until that has agreed with the directory about the size.
std::vector<uint8_t> unpacked(const std::string& name, Bytes packed, const Member& m) {
  Inflater inflater("npz", name, packed, Inflater::Format::deflate);
  std::vector<uint8_t> bytes;
  inflater.append(bytes, npy_prefix_bytes);
  inflater.append(bytes, npy_header_bytes("npz", name, bytes));
  const NpyHeader h = parse_npy_header("npz", name, bytes);
  if (h.value_bytes > largest_number)
    fail("npz", name, ": expected a member below 4 GiB, got one of shape ", h.shape);
  const int64_t total = h.header_bytes + h.value_bytes;
  if (total != m.bytes || total / largest_inflation > m.packed_bytes)
    fail("npz", name, ": expected ", total, " bytes for shape ", h.shape, ", got ", m.bytes, " packed into ",
         m.packed_bytes);
  inflater.append(bytes, total + 1);
  return bytes;
}

void check_sum(const std::string& name, Bytes bytes, const Member& m) {
  const uint32_t sum = static_cast<uint32_t>(::crc32_z(0, bytes.data(), bytes.size()));
  if (sum != m.checksum)
    fail("npz", name, ": expected the checksum 0x", std::hex, m.checksum, ", got 0x", sum, " (a damaged file)");
}

void put16(std::string& out, uint32_t value) {
  out += static_cast<char>(value & 255);
  out += static_cast<char>(value >> 8 & 255);
}
void put32(std::string& out, uint32_t value) {
  put16(out, value & 0xffff);
  put16(out, value >> 16);
}

}  // namespace

NamedArrays read_npz(const std::string& path) {
  const std::vector<uint8_t> file = read_file("npz", path);
  const Directory directory = find_directory(path, file);
  NamedArrays arrays;
  for (const Member& m : read_directory(path, file, directory)) {
    const std::string name = path + ": " + quoted(m.name);
    Bytes bytes = packed(name, file, directory, m);
    std::vector<uint8_t> inflated;
    if (m.method == deflated) bytes = inflated = unpacked(name, bytes, m);
    if (static_cast<int64_t>(bytes.size()) != m.bytes)
      fail("npz", name, ": expected ", m.bytes, " bytes, got ", bytes.size());
    check_sum(name, bytes, m);
    arrays.emplace_back(m.name.substr(0, m.name.size() - ending.size()), parse_npy("npz", name, bytes));
  }
  return arrays;
}

void write_npz(const std::string& path, const NamedArrays& arrays) {
  std::deque<std::string> texts;  // what stands between the arrays; the pieces point into it
  std::vector<std::span<const std::byte>> pieces;
  int64_t position = 0;
  const auto append = [&](std::span<const std::byte> piece) {
    pieces.push_back(piece);
    position += static_cast<int64_t>(piece.size());
    if (position > largest_number) fail("npz", path, ": expected arrays below 4 GiB; write safetensors");
  };
  std::set<std::string> names;
  std::string directory;
  if (static_cast<int64_t>(arrays.size()) > largest_count)
    fail("npz", path, ": expected at most ", largest_count, " arrays, got ", arrays.size());
  for (const auto& [name, array] : arrays) {
    if (name.empty() || static_cast<int64_t>(name.size() + ending.size()) > UINT16_MAX || !names.insert(name).second)
      fail("npz", path, ": expected names of 1 to ", UINT16_MAX - ending.size(), " bytes, each once, got ", quoted(name));
    if (!is_utf8(name) || name.find('\0') != std::string::npos)
      fail("npz", path, ": expected names in UTF-8 without null characters, got ", quoted(name));
    const std::string header = npy_header("npz", path + ": " + quoted(name), array);
    const auto* values = static_cast<const uint8_t*>(array.raw());
    const uLong sum = ::crc32_z(0, reinterpret_cast<const Bytef*>(header.data()), header.size());
    const int64_t bytes = static_cast<int64_t>(header.size()) + array.bytes();
    if (bytes > largest_number) fail("npz", path, ": expected arrays below 4 GiB; write safetensors");

    std::string entry;  // what the local header and the directory have in common
    put16(entry, 20);   // version 2.0 of the format reads it
    put16(entry, std::any_of(name.begin(), name.end(), [](char c) { return (c & 0x80) != 0; }) ? utf8_flag : 0);
    put16(entry, stored);
    put16(entry, 0);
    put16(entry, first_date);
    put32(entry, static_cast<uint32_t>(::crc32_z(sum, values, static_cast<size_t>(array.bytes()))));
    put32(entry, static_cast<uint32_t>(bytes));
    put32(entry, static_cast<uint32_t>(bytes));
    put16(entry, static_cast<uint32_t>(name.size() + ending.size()));
    put16(entry, 0);

    put32(directory, directory_mark);
    put16(directory, 20);
    directory += entry;
    directory.append(10, '\0');  // no comment, first disk, no attributes
    put32(directory, static_cast<uint32_t>(position));
    directory += name;
    directory += ending;

    std::string& text = texts.emplace_back();
    put32(text, local_mark);
    text += entry + name;
    text += ending;
    text += header;
    append(std::as_bytes(std::span(text)));
    append({reinterpret_cast<const std::byte*>(values), static_cast<size_t>(array.bytes())});
  }
  std::string end;
  put32(end, end_mark);
  put32(end, 0);  // the first disk of one
  for (int twice = 0; twice < 2; ++twice) put16(end, static_cast<uint32_t>(arrays.size()));
  put32(end, static_cast<uint32_t>(directory.size()));
  put32(end, static_cast<uint32_t>(position));
  put16(end, 0);
  append(std::as_bytes(std::span(directory)));
  append(std::as_bytes(std::span(end)));
  write_file_atomically("npz", path, pieces);
}

}  // namespace backbeat

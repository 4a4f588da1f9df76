// Writing a file whole or not at all, and SHA-256.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/io/file.hpp"
#include "engine/io/safetensors.hpp"
#include "engine/io/sha256.hpp"
#include "tests/engine/io.hpp"

using namespace backbeat;
namespace fs = std::filesystem;

TEST_CASE("atomic writing: a write that fails leaves the old file and nothing else") {
  const Folder folder;
  const NamedArrays old = {{"a", Array::scalar(1.0f)}}, large = {{"a", Array::zeros(DType::f32, {100'000})}};
  write_safetensors(folder / "x", old);

  // A limit on the size of a file stands in for a full disk.
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto old_handler = ::signal(SIGXFSZ, SIG_IGN);
  rlimit limit = before;
  limit.rlim_cur = 4096;
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
  std::string text;
  try {
    write_safetensors(folder / "x", large);
  } catch (const RunError& error) {
    text = error.what();
  }
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  ::signal(SIGXFSZ, old_handler);
  CHECK(text == "[safetensors] " + (folder / "x") + ": cannot write: File too large");
  check_same(read_safetensors(folder / "x").arrays, old);
  CHECK(folder.names() == std::vector<std::string>{"x"});

  CHECK_THROWS_WITH_AS(write_safetensors("/dev/full", old),
                       "[safetensors] /dev/full: cannot write: No space left on device", RunError);
  CHECK(fs::is_character_file("/dev/full"));
}

TEST_CASE("atomic writing: through a symbolic link, over an old file, text as well") {
  const Folder folder;
  fs::create_directory(folder / "runs");
  write_file_atomically("test", folder / "runs/old", "first, and longer");
  fs::create_symlink("runs/old", folder / "link");
  write_file_atomically("test", folder / "link", "second");
  CHECK(fs::is_symlink(folder / "link"));
  const Bytes bytes = read_file("test", folder / "runs/old");
  CHECK(std::string(bytes.begin(), bytes.end()) == "second");
}

TEST_CASE("atomic writing: killed at any moment, the file is whole") {
  const Folder folder;
  constexpr int64_t size = 50'000;
  write_safetensors(folder / "x", {{"a", Array::full(DType::f32, {size}, -1)}});
  for (int round = 0; round < 8; ++round) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      for (int k = 0;; ++k) write_safetensors(folder / "x", {{"a", Array::full(DType::f32, {size}, k)}});
    }
    ::usleep(static_cast<useconds_t>(3000 + 2711 * round));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const SafetensorsFile file = read_safetensors(folder / "x");
    REQUIRE(file.arrays.size() == 1);
    const Array& a = file.arrays[0].second;
    CHECK(bitwise_equal(a, Array::full(DType::f32, {size}, a.at(0))));
  }
}

TEST_CASE("sha256: published answers, and a fingerprint that does not depend on the order") {
  CHECK(sha256_hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256_hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");

  const Array a = Array::from<float>({2}, {1, 2}), b = Array::from<int32_t>({1}, {7});
  const std::string both = sha256_of({{"a", a}, {"b", b}});
  CHECK(both == sha256_of({{"b", b}, {"a", a}}));
  CHECK(both == sha256_hex(std::string("a f32[2] 8\n\0\0\x80\x3f\0\0\0\x40"
                                       "b i32[1] 4\n\7\0\0\0",
                                       11 + 8 + 11 + 4)));
  CHECK(both != sha256_of({{"a", a.reshaped({2, 1})}, {"b", b}}));
  CHECK(both != sha256_of({{"a", b}, {"b", a}}));
}

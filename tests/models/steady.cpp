// A run in its steady state: nothing is compiled again, nothing grows, and the number of threads changes no bit.
#include <doctest/doctest.h>
#include <omp.h>
#include <unistd.h>

#include <fstream>
#include <map>

#include "devices/tpu/tpu.hpp"
#include "models/wgan_gp/train.hpp"
#include "sim/chip.hpp"

using namespace backbeat;

namespace {

// Counts what is compiled, by the Program's name.
class CountingDevice : public Device {
 public:
  explicit CountingDevice(std::unique_ptr<Device> device) : device_(std::move(device)) {}
  std::string name() const override { return device_->name(); }
  std::unique_ptr<Executable> compile(const Program& program, const CompileOptions& options) override {
    ++compiled[program.name];
    return device_->compile(program, options);
  }
  std::map<std::string, int> compiled;

 private:
  std::unique_ptr<Device> device_;
};

std::vector<std::unique_ptr<Device>> both_devices() {
  std::vector<std::unique_ptr<Device>> devices;
  devices.push_back(make_cpu_device());
  devices.push_back(make_tpu_device(sim::load_chip("tpu-v3")));
  return devices;
}

wgan_gp::Config small(const std::string& data, int64_t batch) {
  wgan_gp::Config c;
  c.data = data, c.batch = batch;
  return c;
}

int64_t resident_bytes() {
  std::ifstream in("/proc/self/statm");
  int64_t total = 0, resident = 0;
  in >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

}  // namespace

TEST_CASE("train: each Program is compiled exactly once") {
  for (auto& device : both_devices()) {
    CountingDevice counting(std::move(device));
    wgan_gp::TrainOptions options;
    options.iterations = 5;
    wgan_gp::train(wgan_gp::Model(small("8gaussians", 16)), counting, open_dataset("8gaussians"), options);
    CHECK(counting.compiled == std::map<std::string, int>{{"critic_step", 1}, {"generator_step", 1}, {"generate", 1}});
  }
}

#if !defined(__SANITIZE_ADDRESS__)  // which keeps what is freed
TEST_CASE("train: resident memory is flat over 1000 toy steps") {
  for (auto& device : both_devices()) {
    CAPTURE(device->name());
    int64_t at_100 = 0, at_end = 0;
    wgan_gp::TrainOptions options;
    options.iterations = 1000, options.critic_steps = 1;
    wgan_gp::Observer observer;
    observer.iteration = [&](const wgan_gp::Losses& l) {
      if (l.iteration == 100) at_100 = resident_bytes();
      if (l.iteration == 1000) at_end = resident_bytes();
    };
    wgan_gp::train(wgan_gp::Model(small("8gaussians", 4)), *device, open_dataset("8gaussians"), options, observer);
    CHECK(at_end - at_100 < 1 << 20);  // the list of losses grows by 50 kB; a leaked tensor of one step would be 1 MB a step
  }
}
#endif

TEST_SUITE("threads") {
  TEST_CASE("train: 1 and 2 threads give the same parameters") {
    for (const auto& [data, batch, iterations] : {std::tuple("8gaussians", 64, 2), std::tuple("fashion-mnist", 4, 1)}) {
      const Dataset samples = open_dataset(data);
      for (auto& device : both_devices()) {
        CAPTURE(data);
        CAPTURE(device->name());
        wgan_gp::TrainOptions options;
        options.iterations = iterations, options.critic_steps = 2;
        const auto hash = [&](int threads) {
          omp_set_num_threads(threads);
          return wgan_gp::train(wgan_gp::Model(small(data, batch)), *device, samples, options).parameters_sha256;
        };
        const std::string one = hash(1);
        CHECK(one == hash(2));
        omp_set_num_threads(2);
      }
    }
  }
}

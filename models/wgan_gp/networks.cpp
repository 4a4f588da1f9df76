#include "models/wgan_gp/networks.hpp"

#include "engine/ops.hpp"

namespace backbeat::wgan_gp {

namespace {

void add_dense(Network& n, const std::string& layer, int64_t in, int64_t out, double deviation) {
  append(n.parameters, dense_parameters(layer, in, out, initial::uniform(deviation)));
}

void add_conv(Network& n, const std::string& layer, int64_t kernel, int64_t in, int64_t out, double deviation) {
  append(n.parameters, conv2d_parameters(layer, kernel, kernel, in, out, initial::uniform(deviation)));
}

Tensor activate(Activation activation, Tensor x) {
  switch (activation) {
    case Activation::relu: return relu(x);
    case Activation::leaky_relu: return leaky_relu(x, 0.2);
    case Activation::tanh: break;
  }
  return tanh(x);
}

Network multilayer_perceptron(int64_t in, int64_t width, int64_t out, Activation activation, Precision precision) {
  Network n;
  add_dense(n, "dense_1", in, width, he_deviation(in));
  add_dense(n, "dense_2", width, width, he_deviation(width));
  add_dense(n, "dense_3", width, width, he_deviation(width));
  add_dense(n, "out", width, out, glorot_deviation(static_cast<double>(width), static_cast<double>(out)));
  n.apply = [=](const Parameters& p, Tensor x) {
    for (const char* layer : {"dense_1", "dense_2", "dense_3"}) {
      Tensor h = dense(p, layer, x, precision);
      Scope network(p.network()), scope(layer);
      x = activate(activation, h);
    }
    return dense(p, "out", x, precision);
  };
  return n;
}

constexpr int64_t kernel = 5, stride = 2, taps = kernel * kernel;

Network image_critic(Precision precision) {
  Network n;
  const int64_t channels[] = {1, 64, 128, 256};
  for (int i = 0; i < 3; ++i) {
    const double fan_in = static_cast<double>(channels[i] * taps);
    const double fan_out = static_cast<double>(channels[i + 1] * taps) / (stride * stride);
    add_conv(n, "conv_" + std::to_string(i + 1), kernel, channels[i], channels[i + 1], he_glorot_deviation(fan_in, fan_out));
  }
  add_dense(n, "out", 4096, 1, glorot_deviation(4096, 1));
  n.apply = [precision](const Parameters& p, Tensor x) {
    for (const char* layer : {"conv_1", "conv_2", "conv_3"}) {
      Tensor h = conv2d(p, layer, x, {.strides = {stride, stride}, .precision = precision});
      Scope network(p.network()), scope(layer);
      x = leaky_relu(h, 0.2);
    }
    return dense(p, "out", flatten(x), precision);
  };
  return n;
}

Network image_generator(Precision precision) {
  Network n;
  const int64_t channels[] = {256, 128, 64, 1};
  add_dense(n, "dense", 128, 4096, he_deviation(128));
  for (int i = 0; i < 3; ++i) {
    const double fan_in = static_cast<double>(channels[i] * taps) / (stride * stride);
    const double fan_out = static_cast<double>(channels[i + 1] * taps);
    const double deviation = i < 2 ? he_glorot_deviation(fan_in, fan_out) : glorot_deviation(fan_in, fan_out);
    add_conv(n, "deconv_" + std::to_string(i + 1), kernel, channels[i], channels[i + 1], deviation);
  }
  n.apply = [precision](const Parameters& p, Tensor z) {
    Tensor x = relu(dense(p, "dense", z, precision));
    x = reshape(x, {z.dim(0), 4, 4, 256});
    const Conv2d doubled{.strides = {stride, stride}, .precision = precision};
    // 4 -> 8, of which the original keeps 7; 7 -> 14 -> 28.
    x = relu(conv2d_transposed(p, "deconv_1", x, {7, 7}, doubled));
    x = relu(conv2d_transposed(p, "deconv_2", x, {14, 14}, doubled));
    return logistic(conv2d_transposed(p, "deconv_3", x, {28, 28}, doubled));
  };
  return n;
}

}  // namespace

constexpr const char* activation_names[] = {"relu", "leaky-relu", "tanh"};

Activation activation_from_name(const std::string& name) {
  for (size_t i = 0; i < std::size(activation_names); ++i)
    if (name == activation_names[i]) return static_cast<Activation>(i);
  fail("activation", "unknown activation '", name, "', expected relu, leaky-relu or tanh");
}

std::string_view name_of(Activation activation) { return activation_names[static_cast<size_t>(activation)]; }

Networks toy(Activation activation, Precision precision, int64_t width) {
  return {multilayer_perceptron(2, width, 1, activation, precision), multilayer_perceptron(2, width, 2, activation, precision),
          {2}, 2};
}

Networks image(Precision precision) { return {image_critic(precision), image_generator(precision), {28, 28, 1}, 128}; }

int64_t parameter_count(const Network& network) {
  int64_t n = 0;
  for (const ParameterSpec& spec : network.parameters) n += element_count(spec.shape);
  return n;
}

}  // namespace backbeat::wgan_gp

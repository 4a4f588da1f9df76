// Recurrent cells, and how they run along a sequence.
#pragma once
#include "engine/composite.hpp"
#include "models/layers/convolution.hpp"

namespace backbeat {

// --- LSTM, Hochreiter and Schmidhuber 1997 with the forget gate of Gers et al. 2000. With z = x input_weight +
// h hidden_weight + bias, cut into i, f, g, o along the last axis (the order of PyTorch and Keras):
//   c' = logistic(f + forget_bias) * c + logistic(i) * tanh(g),   h' = logistic(o) * tanh(c')
// The optional peepholes of Gers and Schmidhuber 2000 add peephole_input * c to i, peephole_forget * c to f and
// peephole_output * c' to o.
struct Lstm {
  double forget_bias = 0;   // 1 in TensorFlow 1's cells; Keras starts the bias there instead
  bool hard_gates = false;  // hard_sigmoid in the place of logistic: PredNet's original code
  Precision precision = Precision::standard;
};
struct LstmState {
  Tensor h, c;
};

// LAYER/input_weight [in, 4 units], LAYER/hidden_weight [units, 4 units], LAYER/bias [4 units] from 0; with peepholes
// LAYER/peephole_{input,forget,output} [units] from 0.
std::vector<ParameterSpec> lstm_parameters(const std::string& layer, int64_t in, int64_t units, bool peepholes, Initial input,
                                           Initial hidden);
// x [n, in], h and c [n, units].
LstmState lstm(const Parameters& p, const std::string& layer, Tensor x, const LstmState& state, const Lstm& options = {});

// --- the convolutional LSTM, Shi et al. 2015: both products are SAME convolutions, peepholes are by pixel.
// LAYER/input_weight [kernel, kernel, in, 4 units], LAYER/hidden_weight [kernel, kernel, units, 4 units], LAYER/bias [4 units];
// with peepholes, for images of h x w, LAYER/peephole_{input,forget,output} [h, w, units]. An empty image: none.
std::vector<ParameterSpec> conv_lstm_parameters(const std::string& layer, int64_t kernel, int64_t in, int64_t units,
                                                const Dims& peephole_image, Initial input, Initial hidden);
// x [n, h, w, in], state [n, h, w, units].
LstmState conv_lstm(const Parameters& p, const std::string& layer, Tensor x, const LstmState& state, const Lstm& options = {});

// --- a body that is recorded at its first use and called from then on (engine/composite.hpp)
class Repeated {
 public:
  Repeated(std::string name, CompositeBody body) : name_(std::move(name)), body_(std::move(body)) {}
  // The operands of every use have the shapes and dtypes of the first. What the body reads beside them stays what it was.
  std::vector<Tensor> operator()(const std::vector<Tensor>& operands,
                                 SourceLine where = SourceLine::here());

 private:
  std::string name_;
  CompositeBody body_;
  std::shared_ptr<const Composite> composite_;
  std::vector<Tensor> captured_;
};

// (state, input) -> the next state, of the same shapes and dtypes.
using Cell = std::function<std::vector<Tensor>(const std::vector<Tensor>& state, Tensor input)>;
// A cell along a sequence: the state after each input. Every step is a call of one composite of this name.
std::vector<std::vector<Tensor>> unroll(const std::string& name, const Cell& cell, std::vector<Tensor> state,
                                        const std::vector<Tensor>& inputs,
                                        SourceLine where = SourceLine::here());

// [..., length, ...] as `length` tensors without that axis; and back.
std::vector<Tensor> unstack(Operand x, int64_t axis);
Tensor stack(const std::vector<Tensor>& parts, int64_t axis);

}  // namespace backbeat

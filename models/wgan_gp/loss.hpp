// The critic's loss with gradient penalty, in the words of the paper.
#pragma once
#include "models/wgan_gp/networks.hpp"

namespace backbeat::wgan_gp {

enum class Penalty { two_sided, one_sided, none };
Penalty penalty_from_name(const std::string& name);  // two-sided, one-sided, none
std::string_view name_of(Penalty penalty);

struct CriticLoss {
  Tensor wasserstein;  // [] mean critic(real) - mean critic(fake): the estimate that training raises
  Tensor penalty;      // [] mean over samples of (norm - 1)^2, or of max(norm - 1, 0)^2; undefined without a penalty
  Tensor norms;        // [batch] of the critic's input gradient, flattened sample by sample; undefined likewise
  Tensor total;        // [] lambda * penalty - wasserstein
};

// real and fake [batch, sample...]; eps [batch]: one uniform number a sample, mixes real and fake.
// Error if the penalty does not reach the parameters: then it was detached, and would train nothing.
CriticLoss critic_loss(const std::function<Tensor(Tensor)>& critic, const std::vector<Tensor>& parameters, Tensor real,
                       Tensor fake, Tensor eps, Penalty kind, double lambda);

// The penalty from the critic's input gradient at the mixed samples [batch, sample...].
CriticLoss penalized(Tensor wasserstein, Tensor slope, const std::vector<Tensor>& parameters, Penalty kind, double lambda);

}  // namespace backbeat::wgan_gp

#include "models/wgan_gp/loss.hpp"

#include <algorithm>

#include "autodiff/grad.hpp"

namespace backbeat::wgan_gp {

Penalty penalty_from_name(const std::string& name) {
  if (name == "two-sided") return Penalty::two_sided;
  if (name == "one-sided") return Penalty::one_sided;
  if (name == "none") return Penalty::none;
  fail("penalty", "unknown penalty '", name, "', expected two-sided, one-sided or none");
}

std::string_view name_of(Penalty penalty) {
  return penalty == Penalty::two_sided ? "two-sided" : penalty == Penalty::one_sided ? "one-sided" : "none";
}

CriticLoss penalized(Tensor wasserstein, Tensor slope, const std::vector<Tensor>& parameters, Penalty kind, double lambda) {
  const Tensor norms = norm(flatten(slope), {1});
  const Tensor excess = norms - 1.0;
  const Tensor penalty = mean(square(kind == Penalty::one_sided ? relu(excess) : excess));
  if (std::none_of(parameters.begin(), parameters.end(), [&](Tensor p) { return depends_on(penalty, p); }))
    fail("wgan_gp", "the penalty does not depend on the critic's parameters: its input gradient is detached from the tape, "
         "and the penalty would train nothing");
  return {wasserstein, penalty, norms, lambda * penalty - wasserstein};
}

CriticLoss critic_loss(const std::function<Tensor(Tensor)>& critic, const std::vector<Tensor>& parameters, Tensor real,
                       Tensor fake, Tensor eps, Penalty kind, double lambda) {
  const Tensor wasserstein = mean(critic(real)) - mean(critic(fake));
  if (kind == Penalty::none) return {wasserstein, {}, {}, -wasserstein};

  Scope scope("penalty");
  const Tensor share = broadcast_in_dim(eps, real.shape(), {0});
  const Tensor mixed = share * real + (1.0 - share) * fake;
  const Tensor slope = grad(sum(critic(mixed)), mixed);  // order 1, and still on the tape
  return penalized(wasserstein, slope, parameters, kind, lambda);
}

}  // namespace backbeat::wgan_gp

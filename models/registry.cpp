#include "models/registry.hpp"

#include "models/wgan_gp/options.hpp"

namespace backbeat {

std::vector<RegisteredModel>& registered_models() {
  static std::vector<RegisteredModel> models{wgan_gp::registered()};
  return models;
}

void register_model(RegisteredModel model) { registered_models().push_back(std::move(model)); }

const RegisteredModel& find_model(const std::string& name) {
  std::string known;
  for (const RegisteredModel& model : registered_models()) {
    if (model.name == name) return model;
    known += (known.empty() ? "" : ", ") + model.name;
  }
  fail("model", "unknown model '", name, "', expected one of ", known);
}

}  // namespace backbeat

// WGAN-GP for the command line: options in words become a Config, and the model is put on the list of models.
#pragma once
#include "models/registry.hpp"
#include "models/wgan_gp/steps.hpp"

namespace backbeat::wgan_gp {

Config config_from(const ModelOptions& options);  // Error for a word that it does not know
RegisteredModel registered();

}  // namespace backbeat::wgan_gp

// Layers: functions of tensors and of named parameters, in the dtype of their inputs. Images are [batch, height, width,
// channels]. A function NAME_parameters, where there is one, lists the parameters that NAME reads; a parameter that a layer
// calls optional is used if the network has it. What a layer records is labelled NETWORK/LAYER.
#pragma once
#include "models/layers/activation.hpp"
#include "models/layers/attention.hpp"
#include "models/layers/convolution.hpp"
#include "models/layers/dense.hpp"
#include "models/layers/dropout.hpp"
#include "models/layers/norm.hpp"
#include "models/layers/pooling.hpp"
#include "models/layers/recurrent.hpp"

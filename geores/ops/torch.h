#pragma once
// The parts of LibTorch that geores uses: tensors, autograd, modules and the linear layer. Include
// this instead of torch/torch.h, which also has data loaders, optimisers and every other layer, and
// takes twice as long to compile even when it is precompiled. Code that needs more includes that
// header too.

#include <torch/autograd.h>
#include <torch/cuda.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>
#include <torch/utils.h>

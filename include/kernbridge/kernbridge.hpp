/* kernbridge for C++: tensors, checks that throw, one body for several element types. */
#ifndef KERNBRIDGE_HPP
#define KERNBRIDGE_HPP

#include "kernbridge/check.hpp"
#include "kernbridge/dispatch.hpp"
#include "kernbridge/dtype.hpp"
#include "kernbridge/tensor.hpp"

#endif

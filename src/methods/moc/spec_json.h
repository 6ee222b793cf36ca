#pragma once

#include <string>

#include "methods/moc/spec.h"

namespace fathom::methods::moc {

/// What a checkpoint says of its mixture of control, and back. Throws Error(io) naming `origin`.
std::string to_json(const Spec& spec);
Spec parse_spec(const std::string& json, const std::string& origin);

}  // namespace fathom::methods::moc

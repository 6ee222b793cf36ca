#pragma once

#include "launch/options/option_table.h"
#include "train/config.h"

namespace fathom::options {

/// The section [run].
void describe_run(OptionTable& t, train::RunConfig& c);

/// The sections [adapter] and [moc]: what is trained instead of a frozen model.
void describe_adapter(OptionTable& t, train::AdapterConfig& c);
void describe_moc(OptionTable& t, methods::moc::Spec& c);

}  // namespace fathom::options

#pragma once

#include "data/spans/english/pipeline.h"
#include "data/spans/extractor.h"

namespace fathom::testing {

inline constexpr const char* kSpanModel = FATHOM_SPAN_MODEL;

/// The real model, which tests/run makes; every test that asks for it fails where it is missing.
inline const data::spans::Extractor& extractor() {
  static const data::spans::Extractor loaded(kSpanModel);
  return loaded;
}

/// The same with its stages in reach.
inline const data::spans::english::Pipeline& pipeline() {
  static const data::spans::english::Pipeline loaded(
      data::spans::english::ModelFile::read(kSpanModel));
  return loaded;
}

}  // namespace fathom::testing

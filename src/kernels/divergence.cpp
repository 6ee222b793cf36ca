#include "kernels/divergence.h"

#include "core/error.h"

namespace fathom::kernels {

DivergenceForm DivergenceForm::resolved() const {
  DivergenceForm form = *this;
  if (kind == Divergence::js && beta == 0) form.kind = Divergence::forward_kl;
  if (kind == Divergence::js && beta == 1) form.kind = Divergence::reverse_kl;
  return form;
}

std::string to_string(Divergence kind) {
  switch (kind) {
    case Divergence::forward_kl:
      return "forward_kl";
    case Divergence::reverse_kl:
      return "reverse_kl";
    case Divergence::js:
      return "js";
    case Divergence::tvd:
      return "tvd";
    case Divergence::skew_kl:
      return "skew_kl";
    case Divergence::skew_reverse_kl:
      return "skew_reverse_kl";
  }
  fail(ErrorKind::internal, "a divergence without a name");
}

}  // namespace fathom::kernels

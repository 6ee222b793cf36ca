#include "core/error.h"

namespace fathom {

int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::usage:
    case ErrorKind::config:
      return 2;
    case ErrorKind::data:
      return 3;
    case ErrorKind::io:
      return 4;
    case ErrorKind::comm:
      return 5;
    case ErrorKind::numeric:
      return 6;
    case ErrorKind::internal:
      return 70;
  }
  return 70;
}

const char* to_string(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::usage:
      return "usage error";
    case ErrorKind::config:
      return "configuration error";
    case ErrorKind::data:
      return "data error";
    case ErrorKind::io:
      return "file error";
    case ErrorKind::comm:
      return "communication error";
    case ErrorKind::numeric:
      return "numeric error";
    case ErrorKind::internal:
      return "internal error";
  }
  return "error";
}

}  // namespace fathom

#pragma once

// How the address sanitizer is told which bytes may be touched, by code that hands out memory of
// its own. Nothing where a file is compiled without it.

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
namespace fathom {
constexpr bool kAddressSanitizer = true;
}
#else
#define ASAN_POISON_MEMORY_REGION(address, bytes)
#define ASAN_UNPOISON_MEMORY_REGION(address, bytes)
namespace fathom {
constexpr bool kAddressSanitizer = false;
}
#endif

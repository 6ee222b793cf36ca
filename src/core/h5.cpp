#include "core/h5.h"

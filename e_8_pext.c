#define W 8
#define PEXT 1
#define SUFFIX _8_pext
#include "engine.h"

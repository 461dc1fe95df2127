#define W 12
#define PEXT 1
#define SUFFIX _12_pext
#include "engine.h"

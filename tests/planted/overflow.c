// Planted fault: one byte read past a heap block.

#include <stdlib.h>

int main(void) {
    volatile size_t past = 16;
    char *block = calloc(1, 16);
    int byte = block[past];
    free(block);
    return byte == 12345;
}

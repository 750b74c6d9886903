"""Small C kernels, written by hand against the ABI of codegen/c_prelude.h, for the tests of the driver."""

from __future__ import annotations

ERROR = """
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
typedef struct tg_error {
    int kind, line, column; const char *file, *message; int64_t values[2];
} tg_error;
"""

#: y = 2 x, sizes: n
TWICE = (
    ERROR
    + """
int twice_entry(void *const *pointers, const int64_t *sizes, void *workspace, tg_error *error)
{
    const double *x = pointers[0];
    double *y = pointers[1];
    for (int64_t i = 0; i < sizes[0]; i++)
        y[i] = 2.0*x[i];
    return 0;
}
"""
)

#: results are copies of the inputs, of which there are COUNT with BYTES bytes each
COPIES = (
    ERROR
    + """
#include <string.h>
int copies_entry(void *const *pointers, const int64_t *sizes, void *workspace, tg_error *error)
{
    for (int k = 0; k < COUNT; k++)
        memcpy(pointers[COUNT + k], pointers[k], BYTES);
    return 0;
}
"""
)

#: how often this workspace was used, and its size; keeps a block of memory in it; sizes: n
WORKSPACE = (
    ERROR
    + """
typedef struct { int64_t calls; double *block; double data[]; } memory;
int64_t live_blocks;
int64_t counter_workspace(int64_t n) { return sizeof(memory) + 8*n; }
void counter_release(void *workspace)
{
    memory *m = workspace;
    if (m->block) __atomic_sub_fetch(&live_blocks, 1, __ATOMIC_SEQ_CST);
    free(m->block);
}
int counter_entry(void *const *pointers, const int64_t *sizes, void *workspace, tg_error *error)
{
    memory *m = workspace;
    const double *x = pointers[0];
    double *y = pointers[1];
    if (!m->block) { m->block = malloc(8); __atomic_add_fetch(&live_blocks, 1, __ATOMIC_SEQ_CST); }
    m->calls++;
    for (int64_t i = 0; i < sizes[0]; i++) m->data[i] = x[i];
    if (x[0] < 0) usleep((int)(-x[0]*1e6));
    for (int64_t i = 0; i < sizes[0]; i++) y[i] = 3.0*m->data[i];
    *(double *)pointers[2] = (double)m->calls;
    return 0;
}
"""
)

#: fails with kind x[0]
FAILING = (
    ERROR
    + """
int failing_entry(void *const *pointers, const int64_t *sizes, void *workspace, tg_error *error)
{
    error->kind = (int)*(const double *)pointers[0];
    error->line = 7;
    error->column = 3;
    error->file = "model.py";
    error->message = "index %lld is out of bounds for size %lld";
    error->values[0] = -9;
    error->values[1] = 4;
    return error->kind;
}
"""
)

/* A stand-in for libcuda.so.1: memory is the host's, rates are whatever memcpy reaches.
   CUDA_FAKE_GPUS, _INIT (what cuInit gives), _CONTEXT, _ALLOC (the GPU that refuses it), _NO_PEER (a GPU
   without peer access), _FLIP (the GPU that damages a byte on its way back) change what it does. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
typedef uint64_t ptr;
static int current = -1, started = 0, peers[64][64];
static int env(const char *n, int d) { const char *v = getenv(n); return v ? atoi(v) : d; }
static int count(void) { return env("CUDA_FAKE_GPUS", 2); }
int cuInit(unsigned flags) { started = 1; return flags ? 1 : env("CUDA_FAKE_INIT", 0); }
int cuDeviceGetCount(int *n) { if (!started) return 3; *n = count(); return 0; }
int cuDevicePrimaryCtxRetain(void **c, int d) {
  if (d < 0 || d >= count()) return 101;
  if (d == env("CUDA_FAKE_CONTEXT", -1)) return 802;
  *c = (void *)(intptr_t)(d + 1); return 0; }
int cuDevicePrimaryCtxRelease_v2(int d) { return d < count() ? 0 : 101; }
int cuCtxSetCurrent(void *c) { current = (int)(intptr_t)c - 1; return current < 0 || current >= count() ? 201 : 0; }
int cuCtxSynchronize(void) { return current < 0 ? 201 : 0; }
int cuMemAlloc_v2(ptr *p, size_t n) {
  if (current < 0) return 201;
  if (current == env("CUDA_FAKE_ALLOC", -1)) return 2;
  *p = (ptr)malloc(n); return *p ? 0 : 2; }
int cuMemFree_v2(ptr p) { free((void *)p); return 0; }
int cuMemHostAlloc(void **p, size_t n, unsigned f) { *p = malloc(n); return f ? 1 : *p ? 0 : 2; }
int cuMemFreeHost(void *p) { free(p); return 0; }
int cuMemsetD8_v2(ptr p, unsigned char c, size_t n) { memset((void *)p, c, n); return 0; }
int cuMemcpyDtoD_v2(ptr a, ptr b, size_t n) { memcpy((void *)a, (void *)b, n); return 0; }
int cuMemcpyHtoD_v2(ptr a, const void *b, size_t n) { memcpy((void *)a, b, n); return 0; }
int cuMemcpyDtoH_v2(void *a, ptr b, size_t n) {
  memcpy(a, (void *)b, n);
  if (current == env("CUDA_FAKE_FLIP", -1)) ((char *)a)[n / 2] ^= 1;
  return 0; }
int cuDeviceCanAccessPeer(int *able, int a, int b) {
  int no = env("CUDA_FAKE_NO_PEER", -1); *able = a != no && b != no; return a == b ? 101 : 0; }
int cuCtxEnablePeerAccess(void *c, unsigned f) {
  int b = (int)(intptr_t)c - 1; if (f || current < 0) return 1;
  if (peers[current][b]) return 704; peers[current][b] = 1; return 0; }
int cuMemcpyPeer(ptr a, void *ac, ptr b, void *bc, size_t n) {
  int from = (int)(intptr_t)bc - 1, to = (int)(intptr_t)ac - 1;
  if (!peers[from][to]) return 217;
  memcpy((void *)a, (void *)b, n); return 0; }

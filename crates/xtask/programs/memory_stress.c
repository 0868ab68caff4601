/* Registers memory repeatedly while threads, the kernel, the allocator and children use it, and checks that nothing
 * is lost: a library that moves registered pages into a file must not break this.
 *
 *   counters   two threads count in words of their own and in shared ones, all over the arena
 *   kernel     write(2) from the arena and read(2) into it, through a pipe
 *   allocator  malloc, calloc, realloc and free, with contents that are checked
 *   children   fork, and the child overwrites all its memory
 *   main       ibv_reg_mr of parts of the arena and of blocks, RDMA WRITE from one to another, ibv_dereg_mr
 *
 * Usage: memory_stress SECONDS. It connects two queue pairs of the first device with each other. To use another
 * allocator, name it in LD_PRELOAD behind the library. Unless VRDMA_ADOPT is 0, memory must have been adopted. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
  PAGE = 4096,
  PIECES = 64,                    /* of the arena, each a block of the allocator */
  PIECE = 6 * PAGE + 40,          /* begins and ends in the middle of pages */
  COUNTERS = 2,
  BLOCKS = 200,
  TRANSFER = 3 * PAGE + 100,
  GID_INDEX = 1,
};

/* Offsets in a piece: counters write at the front, the kernel behind them, transfers at the end. */
enum { SHARED = 0, OWN = 64, KERNEL = 1024, KERNEL_BYTES = 2 * PAGE, MOVED = KERNEL + KERNEL_BYTES };

static unsigned char *pieces[PIECES];
static atomic_int over;
static uint64_t rounds[COUNTERS];

static void fail(const char *what, ...) {
  va_list arguments;
  va_start(arguments, what);
  fprintf(stderr, "memory_stress: ");
  vfprintf(stderr, what, arguments);
  fprintf(stderr, " (errno %d)\n", errno);
  va_end(arguments);
  exit(1);
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec / 1e9;
}

static volatile uint64_t *own_word(int piece, long who) {
  return (volatile uint64_t *)(pieces[piece] + OWN + 8 * who);
}

static void *count(void *argument) {
  long who = (long)argument;
  for (uint64_t round = 0; !atomic_load(&over); round++) {
    for (int piece = 0; piece < PIECES; piece++) {
      volatile uint64_t *word = own_word(piece, who);
      if (*word != round) fail("a store was lost: %lu is %lu", round, *word);
      *word = round + 1;
      atomic_fetch_add((_Atomic uint64_t *)(pieces[piece] + SHARED), 1);
    }
    rounds[who] = round + 1;
  }
  return NULL;
}

static void *ask_kernel(void *argument) {
  int ends[2];
  (void)argument;
  if (pipe(ends)) fail("pipe");
  for (unsigned round = 1; !atomic_load(&over); round++) {
    unsigned char *from = pieces[round % PIECES] + KERNEL, *to = pieces[(round * 7 + 1) % PIECES] + KERNEL;
    if (from == to) continue;
    memset(from, round & 0xff, KERNEL_BYTES);
    if (write(ends[1], from, KERNEL_BYTES) != KERNEL_BYTES) fail("write");
    for (int done = 0; done < KERNEL_BYTES;) {
      ssize_t count = read(ends[0], to + done, KERNEL_BYTES - done);
      if (count <= 0) fail("read");
      done += count;
    }
    for (int at = 0; at < KERNEL_BYTES; at++)
      if (to[at] != (round & 0xff)) fail("what the kernel wrote was lost at %d", at);
  }
  return NULL;
}

struct block {
  unsigned char *bytes;
  size_t size;
  unsigned char value;
};

static struct block blocks[BLOCKS];
static pthread_mutex_t blocks_lock = PTHREAD_MUTEX_INITIALIZER;

static void check_block(const struct block *block, size_t size) {
  for (size_t at = 0; at < size; at++)
    if (block->bytes[at] != block->value) fail("a block has another byte at %zu of %zu", at, block->size);
}

static void *allocate(void *argument) {
  unsigned seed = 1;
  (void)argument;
  while (!atomic_load(&over)) {
    size_t size = 1 + rand_r(&seed) % (rand_r(&seed) % 8 ? 3 * PAGE : 600000);
    pthread_mutex_lock(&blocks_lock);
    struct block *block = &blocks[rand_r(&seed) % BLOCKS];
    if (block->bytes && rand_r(&seed) % 2) {
      check_block(block, block->size);
      unsigned char *bytes = realloc(block->bytes, size);
      if (!bytes) fail("realloc");
      block->bytes = bytes;
      check_block(block, size < block->size ? size : block->size);
    } else {
      if (block->bytes) check_block(block, block->size);
      free(block->bytes);
      block->bytes = calloc(1, size);
      if (!block->bytes) fail("calloc");
      block->value = 0;
      check_block(block, size);
    }
    block->size = size;
    block->value = rand_r(&seed);
    memset(block->bytes, block->value, size);
    pthread_mutex_unlock(&blocks_lock);
  }
  return NULL;
}

static void *beget(void *argument) {
  int *children = argument;
  while (!atomic_load(&over)) {
    pid_t child = fork();
    if (child < 0) fail("fork");
    if (child == 0) {
      for (int piece = 0; piece < PIECES; piece++) memset(pieces[piece], 0xee, PIECE);
      _exit(0);
    }
    int status;
    if (waitpid(child, &status, 0) != child || status) fail("a child ended with %x", status);
    ++*children;
    usleep(20000);
  }
  return NULL;
}

static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *ends[2];

static struct ibv_qp *make_end(void) {
  struct ibv_qp_init_attr wanted = {
      .send_cq = cq,
      .recv_cq = cq,
      .cap = {.max_send_wr = 16, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
      .qp_type = IBV_QPT_RC};
  struct ibv_qp *end = ibv_create_qp(pd, &wanted);
  if (!end) fail("ibv_create_qp");
  struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
  if (ibv_modify_qp(end, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)) fail("INIT");
  return end;
}

static void connect_end(struct ibv_qp *end, const struct ibv_qp *other, const union ibv_gid *gid) {
  struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR,
                            .path_mtu = IBV_MTU_4096,
                            .dest_qp_num = other->qp_num,
                            .max_dest_rd_atomic = 1,
                            .min_rnr_timer = 12,
                            .ah_attr = {.is_global = 1,
                                        .port_num = 1,
                                        .grh = {.dgid = *gid, .sgid_index = GID_INDEX, .hop_limit = 1}}};
  int of_rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
               IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  if (ibv_modify_qp(end, &rtr, of_rtr)) fail("RTR");
  struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
  int of_rts = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
               IBV_QP_MAX_QP_RD_ATOMIC;
  if (ibv_modify_qp(end, &rts, of_rts)) fail("RTS");
}

static void open_device(void) {
  struct ibv_device **devices = ibv_get_device_list(NULL);
  struct ibv_context *context = devices && devices[0] ? ibv_open_device(devices[0]) : NULL;
  union ibv_gid gid;
  if (!context || ibv_query_gid(context, 1, GID_INDEX, &gid)) fail("no device");
  pd = ibv_alloc_pd(context);
  cq = ibv_create_cq(context, 16, NULL, NULL, 0);
  if (!pd || !cq) fail("no objects");
  for (int end = 0; end < 2; end++) ends[end] = make_end();
  for (int end = 0; end < 2; end++) connect_end(ends[end], ends[1 - end], &gid);
}

static struct ibv_mr *reg(void *at, size_t size) {
  struct ibv_mr *mr = ibv_reg_mr(pd, at, size, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  if (!mr) fail("ibv_reg_mr of %zu bytes", size);
  return mr;
}

/* Writes from one piece to another, in the parts that are reserved for transfers. */
static void transfer(unsigned round) {
  unsigned char *from = pieces[round % PIECES], *to = pieces[(round * 11 + 3) % PIECES];
  if (from == to) return;
  memset(from + MOVED, round & 0xff, TRANSFER);
  struct ibv_mr *source = reg(from, PIECE), *target = reg(to, PIECE);
  struct ibv_sge bytes = {.addr = (uintptr_t)from + MOVED, .length = TRANSFER, .lkey = source->lkey};
  struct ibv_send_wr request = {.sg_list = &bytes,
                                .num_sge = 1,
                                .opcode = IBV_WR_RDMA_WRITE,
                                .send_flags = IBV_SEND_SIGNALED,
                                .wr.rdma = {.remote_addr = (uintptr_t)to + MOVED, .rkey = target->rkey}},
                     *bad;
  if (ibv_post_send(ends[round % 2], &request, &bad)) fail("ibv_post_send");
  struct ibv_wc done;
  int count;
  while (!(count = ibv_poll_cq(cq, 1, &done))) {}
  if (count < 0 || done.status) fail("a WRITE ended with %s", ibv_wc_status_str(done.status));
  for (int at = 0; at < TRANSFER; at++)
    if (to[MOVED + at] != (round & 0xff)) fail("a WRITE has not arrived at %d", at);
  if (ibv_dereg_mr(source) || ibv_dereg_mr(target)) fail("ibv_dereg_mr");
}

/* Registers a block that the allocator's thread frees later. */
static void register_block(unsigned round) {
  pthread_mutex_lock(&blocks_lock);
  struct block *block = &blocks[round % BLOCKS];
  if (block->bytes) {
    struct ibv_mr *mr = reg(block->bytes, block->size);
    check_block(block, block->size);
    if (ibv_dereg_mr(mr)) fail("ibv_dereg_mr");
  }
  pthread_mutex_unlock(&blocks_lock);
}

static int adopted(void) {
  FILE *maps = fopen("/proc/self/maps", "r");
  char line[512];
  int count = 0;
  while (maps && fgets(line, sizeof line, maps)) count += strstr(line, "memfd:adopted") != NULL;
  if (maps) fclose(maps);
  return count;
}

int main(int count_of, char **words) {
  double seconds = count_of > 1 ? atof(words[1]) : 5;
  pthread_t threads[COUNTERS + 3];
  int children = 0, started = 0;
  for (int piece = 0; piece < PIECES; piece++)
    if (!(pieces[piece] = calloc(1, PIECE))) fail("calloc");
  open_device();
  for (long who = 0; who < COUNTERS; who++) pthread_create(&threads[started++], NULL, count, (void *)who);
  pthread_create(&threads[started++], NULL, ask_kernel, NULL);
  pthread_create(&threads[started++], NULL, allocate, NULL);
  pthread_create(&threads[started++], NULL, beget, &children);
  unsigned round = 0;
  int most = 0;
  for (double end = now() + seconds; now() < end; round++) {
    transfer(round);
    register_block(round);
    if (round % 256 == 255 || !most) most = adopted() > most ? adopted() : most;
  }
  atomic_store(&over, 1);
  while (started) pthread_join(threads[--started], NULL);
  uint64_t sum = 0;
  for (int who = 0; who < COUNTERS; who++) sum += rounds[who];
  for (int piece = 0; piece < PIECES; piece++) {
    for (long who = 0; who < COUNTERS; who++)
      if (*own_word(piece, who) != rounds[who]) fail("a counter is wrong");
    if (*(uint64_t *)(pieces[piece] + SHARED) != sum) fail("an atomic was lost");
  }
  const char *may = getenv("VRDMA_ADOPT");
  if (!most && !(may && !strcmp(may, "0"))) fail("no memory was adopted");
  printf("%u rounds, %lu counted, %d children, %d mappings adopted: all is well\n", round, sum, children, most);
  return 0;
}

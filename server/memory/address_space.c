#include "server/memory/address_space.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>

// The free ranges form a treap ordered by (bytes, offset): a search tree that random priorities, larger ones
// nearer to the root, keep shallow. The generator is the space's own, so that a sequence of calls always
// gives the same places.
struct address_space {
  uint64_t bytes;
  uint32_t random;
  struct address_range *first; // by address
  struct address_range *root;  // of the free ones
};

static uint32_t next_random(struct address_space *space) {
  uint32_t value = space->random; // xorshift32
  value ^= value << 13;
  value ^= value >> 17;
  value ^= value << 5;
  space->random = value;
  return value;
}

static bool sorts_before(const struct address_range *range, const struct address_range *other) {
  if (range->bytes != other->bytes) {
    return range->bytes < other->bytes;
  }
  return range->offset < other->offset;
}

// Splits a tree into what sorts before `pivot` and the rest. The pivot itself isn't in the tree.
static void tree_split(struct address_range *root, const struct address_range *pivot,
                       struct address_range **before, struct address_range **rest) {
  while (root != NULL) {
    if (sorts_before(root, pivot)) {
      *before = root;
      before = &root->_right;
      root = root->_right;
    } else {
      *rest = root;
      rest = &root->_left;
      root = root->_left;
    }
  }
  *before = NULL;
  *rest = NULL;
}

static void tree_insert(struct address_space *space, struct address_range *range) {
  range->_free = true;
  range->_priority = next_random(space);
  struct address_range **link = &space->root;
  while (*link != NULL && (*link)->_priority >= range->_priority) {
    link = sorts_before(range, *link) ? &(*link)->_left : &(*link)->_right;
  }
  tree_split(*link, range, &range->_left, &range->_right);
  *link = range;
}

static void tree_remove(struct address_space *space, struct address_range *range) {
  struct address_range **link = &space->root;
  while (*link != range) {
    link = sorts_before(range, *link) ? &(*link)->_left : &(*link)->_right;
  }
  // The two subtrees take the range's place, woven together by priority.
  struct address_range *left = range->_left, *right = range->_right;
  while (left != NULL && right != NULL) {
    if (left->_priority >= right->_priority) {
      *link = left;
      link = &left->_right;
      left = left->_right;
    } else {
      *link = right;
      link = &right->_left;
      right = right->_left;
    }
  }
  *link = left != NULL ? left : right;
  range->_free = false;
  range->_left = NULL;
  range->_right = NULL;
}

static struct address_range *tree_best_fit(const struct address_space *space, uint64_t bytes) {
  struct address_range *best = NULL;
  struct address_range *range = space->root;
  while (range != NULL) {
    if (range->bytes >= bytes) {
      best = range;
      range = range->_left;
    } else {
      range = range->_right;
    }
  }
  return best;
}

struct address_space *address_space_create(uint64_t bytes) {
  assert(bytes > 0 && bytes % ADDRESS_SPACE_GRANULE_BYTES == 0);
  struct address_space *space = calloc(1, sizeof *space);
  struct address_range *all = calloc(1, sizeof *all);
  if (space == NULL || all == NULL) {
    free(space);
    free(all);
    return NULL;
  }
  space->bytes = bytes;
  space->random = 0x9e3779b9;
  space->first = all;
  all->bytes = bytes;
  tree_insert(space, all);
  return space;
}

void address_space_destroy(struct address_space *space) {
  if (space == NULL) {
    return;
  }
  assert(space->first->_free && space->first->_after == NULL);
  free(space->first);
  free(space);
}

struct address_range *address_space_take(struct address_space *space, uint64_t bytes) {
  assert(bytes > 0);
  if (bytes > space->bytes) {
    return NULL;
  }
  bytes =
      (bytes + ADDRESS_SPACE_GRANULE_BYTES - 1) / ADDRESS_SPACE_GRANULE_BYTES * ADDRESS_SPACE_GRANULE_BYTES;
  struct address_range *range = tree_best_fit(space, bytes);
  if (range == NULL) {
    return NULL;
  }
  struct address_range *rest = NULL;
  if (range->bytes > bytes) {
    rest = calloc(1, sizeof *rest);
    if (rest == NULL) {
      return NULL;
    }
  }
  tree_remove(space, range);
  if (rest != NULL) {
    rest->offset = range->offset + bytes;
    rest->bytes = range->bytes - bytes;
    rest->_before = range;
    rest->_after = range->_after;
    if (rest->_after != NULL) {
      rest->_after->_before = rest;
    }
    range->_after = rest;
    range->bytes = bytes;
    tree_insert(space, rest);
  }
  return range;
}

// Takes `after` into `range`, whose neighbour it is, and frees it. Neither is in the tree.
static void absorb(struct address_range *range, struct address_range *after) {
  range->bytes += after->bytes;
  range->_after = after->_after;
  if (range->_after != NULL) {
    range->_after->_before = range;
  }
  free(after);
}

void address_space_give(struct address_space *space, struct address_range *range) {
  assert(!range->_free);
  struct address_range *after = range->_after;
  if (after != NULL && after->_free) {
    tree_remove(space, after);
    absorb(range, after);
  }
  struct address_range *before = range->_before;
  if (before != NULL && before->_free) {
    tree_remove(space, before);
    absorb(before, range);
    range = before;
  }
  tree_insert(space, range);
}

static size_t tree_check(const struct address_range *range, const struct address_range **last) {
  if (range == NULL) {
    return 0;
  }
  assert(range->_free);
  assert(range->_left == NULL || range->_left->_priority <= range->_priority);
  assert(range->_right == NULL || range->_right->_priority <= range->_priority);
  size_t count = tree_check(range->_left, last);
  assert(*last == NULL || sorts_before(*last, range));
  *last = range;
  return count + 1 + tree_check(range->_right, last);
}

void address_space_check(const struct address_space *space) {
  uint64_t offset = 0;
  size_t free_ranges = 0;
  for (const struct address_range *range = space->first; range != NULL; range = range->_after) {
    assert(range->offset == offset && range->bytes > 0);
    assert(range->bytes % ADDRESS_SPACE_GRANULE_BYTES == 0);
    assert(range->_after == NULL || range->_after->_before == range);
    assert(!(range->_free && range->_after != NULL && range->_after->_free));
    free_ranges += range->_free;
    offset += range->bytes;
  }
  assert(offset == space->bytes);
  const struct address_range *last = NULL;
  size_t in_tree = tree_check(space->root, &last);
  assert(in_tree == free_ranges);
}

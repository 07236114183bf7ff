/* Finding a module: beside the library or program that this is linked into, where an installation has it,
 * or wherever the system's loader looks. */
#define _GNU_SOURCE /* dladdr */
#include "kv/ordered.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The file that this is linked into: a library, or the program, which the loader may know by its bare name
 * only. False: unknown. */
static bool find_self(char *path, size_t size) {
    static const char here = 0;
    Dl_info self;
    bool known = dladdr(&here, &self) != 0 && self.dli_fname != NULL;
    if (known && strchr(self.dli_fname, '/') != NULL) {
        return snprintf(path, size, "%s", self.dli_fname) < (int)size;
    }
    ssize_t length = readlink("/proc/self/exe", path, size - 1);
    path[length > 0 ? length : 0] = '\0';
    return length > 0;
}

static void *open_beside(const char *file) {
    static const char *const places[] = {"", "../", "../lib/", "../../"};
    enum { PATH_SIZE = 2048 };
    char self[PATH_SIZE], path[PATH_SIZE + 128];
    if (!find_self(self, sizeof(self)) || strrchr(self, '/') == NULL) {
        return NULL;
    }
    strrchr(self, '/')[1] = '\0';
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        (void)snprintf(path, sizeof(path), "%s%s%s", self, places[i], file);
        void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (module != NULL) {
            return module;
        }
    }
    return NULL;
}

int ordered_load(const char *engine, const struct ordered_ops **out, struct reason *why) {
    char file[64];
    (void)snprintf(file, sizeof(file), "libledgerkv-%s.so", engine);
    void *module = open_beside(file);
    module = module != NULL ? module : dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (module == NULL) {
        const char *text = dlerror();
        return reason_set(why, LKV_EUNSUPPORTED,
                          "the engine \"%s\" is a module of its own, %s, and it cannot be loaded: "
                          "%s. It is there when ledgerkv was built with librocksdb-dev, and needs "
                          "the package librocksdb7.8",
                          engine, file, text != NULL ? text : "no reason given");
    }
    /* POSIX says that this works; ISO C does not. */
    ordered_module_fn *make = NULL;
    void *symbol = dlsym(module, ORDERED_SYMBOL);
    memcpy(&make, &symbol, sizeof(make));
    const struct ordered_ops *ops = make != NULL ? make() : NULL;
    if (ops == NULL || ops->abi != ORDERED_ABI) {
        (void)dlclose(module);
        return reason_set(why, LKV_EVERSION, "%s is of another version of ledgerkv", file);
    }
    *out = ops; /* it stays loaded: a second time it is the same */
    return 0;
}

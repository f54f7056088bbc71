/* host COPY...: a program that loads copies of the shared library late, as plugins that contain Haul would, uses each
 * in a thread, closes it there, and lets the thread end. Prints the fault. */
#include <dlfcn.h>
#include <haul/haul.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FUNCTION(library, name) __typeof__(&name) name##_ = (__typeof__(&name))dlsym(library, #name)

static int fail(const char *what, const char *which)
{
    fprintf(stderr, "%s: %s\n", which, what);
    return 1;
}

/* Work of several threads, an error, and a subscriber: the library keeps something for the thread in each of them. */
static int use(void *library, const char *path)
{
    FUNCTION(library, haul_scope_push);
    FUNCTION(library, haul_scope_pop);
    FUNCTION(library, haul_ones);
    FUNCTION(library, haul_sum_with);
    FUNCTION(library, haul_item);
    FUNCTION(library, haul_set_num_threads);
    FUNCTION(library, haul_add);
    FUNCTION(library, haul_error_message);
    FUNCTION(library, haul_error_clear);
    if (!haul_scope_push_ || !haul_scope_pop_ || !haul_ones_ || !haul_sum_with_ || !haul_item_ || !haul_add_ ||
        !haul_set_num_threads_ || !haul_error_message_ || !haul_error_clear_)
        return fail("a function is missing", path);
    if (haul_set_num_threads_(3))
        return fail("haul_set_num_threads", path);
    haul_scope  *scope = haul_scope_push_();
    haul_tensor *x = haul_ones_(HAUL_F32, HAUL_SHAPE(1 << 20));
    if (haul_item_(haul_sum_with_(&(haul_reduce_options){.x = haul_add_(x, x)})) != 2 << 20)
        return fail("a wrong sum", path);
    haul_add_(x, NULL);
    if (!strstr(haul_error_message_(), "haul_add"))
        return fail("no error", path);
    haul_error_clear_();
    haul_scope_pop_(scope);
    return 0;
}

static void *visit(void *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return (void *)(size_t)fail(dlerror(), path);
    int wrong = use(library, path);
    wrong |= dlclose(library);
    return (void *)(size_t)wrong;
}

/* A thread of the program that outlives the plugin. */
static void *visit_and_stay(void *arguments)
{
    char **paths = arguments;
    size_t wrong = 0;
    for (; *paths; paths++)
        wrong |= (size_t)visit(*paths);
    return (void *)wrong;
}

int main(int count, char **arguments)
{
    void  *wrong = NULL;
    size_t failed = 0;
    for (int round = 0; round < 2; round++) {
        for (int i = 1; i < count; i++) {
            pthread_t thread;
            if (pthread_create(&thread, NULL, visit, arguments[i]) || pthread_join(thread, &wrong))
                return fail("a thread", arguments[i]);
            failed |= (size_t)wrong;
        }
        pthread_t thread;
        if (pthread_create(&thread, NULL, visit_and_stay, arguments + 1) || pthread_join(thread, &wrong))
            return fail("a thread", "all");
        failed |= (size_t)wrong;
    }
    return failed != 0;
}

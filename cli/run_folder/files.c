#include "cli/run_folder/files.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/shared/cli.h"
#include "cli/shared/file_type.h"

static bool is_fit(const char *path, const struct stat *info)
{
    if (!S_ISREG(info->st_mode))
        complain("%s is %s; a training writes only files of its own into the folder of its run: move it away", path,
                 file_kind_name(info->st_mode));
    else if (info->st_nlink > 1)
        complain("%s has %llu names (hard links), and a training would change the file under all of them; replace it "
                 "by a copy of its own, or move it away",
                 path, (unsigned long long)info->st_nlink);
    else
        return true;
    return false;
}

bool run_file_fits(const char *path)
{
    struct stat info;
    if (!lstat(path, &info))
        return is_fit(path, &info);
    if (errno == ENOENT)
        return true;
    complain("%s cannot be examined: %s", path, strerror(errno));
    return false;
}

/* The open file may be another one than the one that was examined. O_NONBLOCK has no effect on regular files. */
int run_file_open(const char *path, int flags)
{
    struct stat info;
    if (!run_file_fits(path))
        return -1;
    int fd = open(path, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666);
    if (fd < 0 || fstat(fd, &info)) {
        complain("%s cannot be %s: %s", path, (flags & O_ACCMODE) == O_RDONLY ? "read" : "written", strerror(errno));
        if (fd >= 0)
            close(fd);
        return -1;
    }
    if (is_fit(path, &info))
        return fd;
    close(fd);
    return -1;
}

run_file_state run_file_read(const char *path, long long offset, FILE **out)
{
    struct stat info;
    *out = NULL;
    if (lstat(path, &info) && errno == ENOENT)
        return RUN_FILE_ABSENT;
    int fd = run_file_open(path, O_RDONLY);
    if (fd < 0)
        return RUN_FILE_UNFIT;
    if (lseek(fd, (off_t)offset, SEEK_SET) >= 0 && (*out = fdopen(fd, "r")))
        return RUN_FILE_OPEN;
    complain("%s cannot be read: %s", path, strerror(errno));
    close(fd);
    return RUN_FILE_UNFIT;
}

bool run_file_is_named(int fd, const char *path, bool is_folder)
{
    struct stat open_one, named;
    return !fstat(fd, &open_one) && !(is_folder ? stat(path, &named) : lstat(path, &named)) &&
           open_one.st_dev == named.st_dev && open_one.st_ino == named.st_ino;
}

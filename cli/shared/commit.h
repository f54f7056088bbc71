/* The commit from which the command was built. */
#ifndef CLI_SHARED_COMMIT_H
#define CLI_SHARED_COMMIT_H

/* "1b2c3d4e5f60", with "-modified" if files differed from it; "" if it is not known, as outside a clone. */
const char *build_commit(void);

#endif

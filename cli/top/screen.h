/* The live screen, by ncurses; or what replaces it in a build without. */
#ifndef CLI_TOP_SCREEN_H
#define CLI_TOP_SCREEN_H

#include "cli/top/view.h"

/* Show the screen until q or Ctrl-C. An exit code, after a complaint if it is not 0. */
int top_screen(top_model *m, top_view *v);

#endif

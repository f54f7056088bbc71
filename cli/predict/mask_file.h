/* The classes of a picture's pixels as a file. */
#ifndef CLI_PREDICT_MASK_FILE_H
#define CLI_PREDICT_MASK_FILE_H

#include "cli/predict/predictor.h"

/* Write the classes that the logits of a picture give its pixels to the folder of --masks: NAME.png for a picture
 * NAME.jpg, a grey value for each pixel, as masks:DIR has them. False after a complaint. */
bool mask_file_write(const predictor *p, const char *picture, haul_tensor *logits);

#endif

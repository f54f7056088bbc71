#include "cli/model/classes.h"

#include <string.h>

#include "cli/model/source.h"
#include "cli/shared/cli.h"

static int count_of(const haul_dataset *data)
{
    data_spec spec;
    return source_spec(data, &spec) ? 0 : spec.y.classes;
}

static const char *name_of(const haul_dataset *data, int index)
{
    data_spec spec;
    return source_spec(data, &spec) || index >= spec.y.classes ? NULL : spec.y.class_names[index];
}

cJSON *classes_to_json(const haul_dataset *data)
{
    cJSON *array = cJSON_CreateArray();
    int    count = count_of(data);
    for (int i = 0; array && i < count; i++) {
        cJSON *name = cJSON_CreateString(name_of(data, i));
        if (!name || !cJSON_AddItemToArray(array, name)) {
            cJSON_Delete(name);
            cJSON_Delete(array);
            return NULL;
        }
    }
    return array;
}

bool classes_are_text(const haul_dataset *data)
{
    int count = count_of(data);
    for (int i = 0; i < count; i++) {
        const char *name = name_of(data, i);
        if (is_utf8(name))
            continue;
        complain("the name of class %d, '%s', is not UTF-8 and cannot be kept with the run; rename it", i, name);
        return false;
    }
    return true;
}

const char *classes_name(const cJSON *stored, int index)
{
    return cJSON_GetStringValue(cJSON_GetArrayItem(stored, index));
}

/* True if `name` is among the data's classes. */
static bool has_class(const haul_dataset *data, const char *name)
{
    int count = count_of(data);
    for (int i = 0; i < count; i++)
        if (!strcmp(name_of(data, i), name))
            return true;
    return false;
}

/* The first class at which two lists part: one that was renamed, that is missing, or that is new. */
static void complain_different(const haul_dataset *data, const cJSON *stored, const char *whose, int at)
{
    const char *ours = name_of(data, at), *theirs = classes_name(stored, at);
    const char *name = haul_dataset_name(data);
    int         count = count_of(data), stored_count = cJSON_GetArraySize(stored);
    if (theirs && ours && count == stored_count)
        complain("class %d is '%s' in %s and '%s' in %s: give the data that the network was trained on, with classes "
                 "of the same names",
                 at, ours, name, theirs, whose);
    else if (theirs && !has_class(data, theirs))
        complain("%s has %d classes and lacks '%s', which %s has (%d classes): give the data that the network was "
                 "trained on",
                 name, count, theirs, whose, stored_count);
    else
        complain("%s has %d classes, one of them '%s', which %s does not have (%d classes): give the data that the "
                 "network was trained on",
                 name, count, ours ? ours : "", whose, stored_count);
}

bool classes_agree(const haul_dataset *data, const cJSON *stored, const char *whose)
{
    int          at = 0, count = count_of(data);
    const cJSON *name = stored ? stored->child : NULL;
    const char  *text;
    for (; name && at < count; name = name->next, at++) {
        text = cJSON_GetStringValue(name);
        if (!text || strcmp(text, name_of(data, at)) != 0)
            break;
    }
    if (!name && at == count)
        return true;
    complain_different(data, stored, whose, at);
    return false;
}

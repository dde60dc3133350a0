/* See home.h. */

#include "home.h"

#include "os.h"
#include "text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char file_name[] = "atelico-home.txt";
static const long max_size = 1 << 20;

static char *joined(const char *folder, const char *value) {
    if (os_is_absolute(value)) return text_copy(value, strlen(value));
    size_t size = strlen(folder) + 1 + strlen(value) + 1;
    char *path = malloc(size);
    if (path != NULL) snprintf(path, size, "%s/%s", folder, value);
    return path;
}

static char *read_file(const char *path, char *why, size_t why_size) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        snprintf(why, why_size, "%s cannot be read (%s). It belongs beside the library.", path, strerror(errno));
        return NULL;
    }
    char *content = malloc((size_t)max_size + 1);
    if (content != NULL) content[fread(content, 1, (size_t)max_size, file)] = '\0';
    fclose(file);
    if (content == NULL) snprintf(why, why_size, "out of memory");
    return content;
}

/* Store one line. 0: stored; -1: an unknown key or no memory. */
static int store(struct host_home *home, const char *folder, const char *key, const char *value) {
    struct {
        const char *key;
        char **field;
    } const fields[] = {
        {"libpython", &home->libpython}, {"host", &home->host},
        {"executable", &home->executable}, {"prefix", &home->prefix},
        {"base_prefix", &home->base_prefix},
    };
    char *path = joined(folder, value);
    if (path == NULL) return -1;
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (strcmp(fields[i].key, key) != 0) continue;
        free(*fields[i].field);
        *fields[i].field = path;
        return 0;
    }
    char **grown = strcmp(key, "path") == 0 ? realloc(home->path, (home->n_path + 1) * sizeof *grown) : NULL;
    if (grown == NULL) {
        free(path);
        return -1;
    }
    home->path = grown;
    home->path[home->n_path++] = path;
    return 0;
}

static int parse(struct host_home *home, const char *folder, char *content, char *why, size_t why_size) {
    int number = 0;
    for (char *line = content, *next; line != NULL; line = next) {
        next = strchr(line, '\n');
        if (next != NULL) *next++ = '\0';
        number++;
        size_t length = strlen(line);
        if (length > 0 && line[length - 1] == '\r') line[length - 1] = '\0';
        if (line[0] == '\0' || line[0] == '#') continue;
        char *equals = strchr(line, '=');
        if (equals != NULL) *equals = '\0';
        if (equals == NULL || store(home, folder, line, equals + 1) != 0) {
            snprintf(why, why_size, "%s/%s: line %d is not a known key=value.", folder, file_name, number);
            return -1;
        }
    }
    if (home->libpython && home->host && home->executable && home->prefix && home->base_prefix && home->n_path > 0)
        return 0;
    snprintf(why, why_size, "%s/%s lacks libpython, host, executable, prefix, base_prefix or path.", folder, file_name);
    return -1;
}

struct host_home *home_read(const char *folder, char *why, size_t why_size) {
    char *file = joined(folder, file_name);
    struct host_home *home = calloc(1, sizeof *home);
    if (file == NULL || home == NULL) {
        free(file);
        free(home);
        snprintf(why, why_size, "out of memory");
        return NULL;
    }
    char *content = read_file(file, why, why_size);
    free(file);
    if (content == NULL || parse(home, folder, content, why, why_size) != 0) {
        home_free(home);
        home = NULL;
    }
    free(content);
    return home;
}

void home_free(struct host_home *home) {
    free(home->libpython);
    free(home->host);
    free(home->executable);
    free(home->prefix);
    free(home->base_prefix);
    for (size_t i = 0; i < home->n_path; i++) free(home->path[i]);
    free(home->path);
    free(home);
}

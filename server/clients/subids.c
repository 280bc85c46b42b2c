// The file is read when it has changed and somebody comes who is not known yet: useradd(8) adds
// lines while the service runs. There are few lines, so they are searched one after the other;
// where ranges overlap the first one counts, as it does for newuidmap(1). Names stay as they are
// here: the user database may take its time (identities.h).
#include "server/clients/subids.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/options/number.h"

#define RANGES_MAX 65536 // of a file that has more the first ones count

// Lines that are none are skipped, as newuidmap(1) does it.
static bool parse_range(char *line, struct subid_range *ret)
{
    uint64_t first, count;
    line[strcspn(line, "\n")] = 0;
    const char *name = strsep(&line, ":"), *from = line ? strsep(&line, ":") : NULL;
    if (!line || number_parse(from, 0, UINT32_MAX - 1, &first, NULL) < 0 ||
        number_parse(line, 1, UINT32_MAX - first, &count, NULL) < 0 || !*name ||
        strlen(name) >= sizeof ret->owner)
        return false;
    ret->first = (uid_t)first;
    ret->last = (uid_t)(first + count - 1);
    strcpy(ret->owner, name);
    return true;
}

static void subids_read(struct subids *s)
{
    char line[512];
    struct subid_range range;
    cleanup(fclose_p) FILE *f = fopen(s->path, "re");
    s->n = 0;
    while (f && s->n < RANGES_MAX && fgets(line, sizeof line, f))
        if (parse_range(line, &range) &&
            array_reserve(s->ranges, s->n_room, s->n + 1, "subordinate users", NULL) == 0)
            s->ranges[s->n++] = range;
}

// Only a plain file is looked into: nothing else would end.
static void subids_refresh(struct subids *s)
{
    struct stat now = {0};
    if (stat(s->path, &now) < 0 || !S_ISREG(now.st_mode)) {
        s->n = 0;
        s->seen = (struct stat){0};
        return;
    }
    if (now.st_ino == s->seen.st_ino && now.st_size == s->seen.st_size &&
        memcmp(&now.st_mtim, &s->seen.st_mtim, sizeof now.st_mtim) == 0)
        return;
    subids_read(s);
    s->seen = now;
}

const char *subids_find(struct subids *s, uid_t uid)
{
    subids_refresh(s);
    for (unsigned i = 0; i < s->n; i++)
        if (uid >= s->ranges[i].first && uid <= s->ranges[i].last)
            return s->ranges[i].owner;
    return NULL;
}

void subids_done(struct subids *s)
{
    free(s->ranges);
    s->ranges = NULL;
    s->n = s->n_room = 0;
}

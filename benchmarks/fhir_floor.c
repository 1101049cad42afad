/* How fast `Observation?patient&code` could be: the same rows of the same file as the same Bundle text, with nothing
 * around it: no HTTP, no query to understand, no links. Reads "patient code count" lines, asks each once, and prints the
 * microseconds of processor time a search, and the bytes it made.
 *
 *     cc -O2 fhir_floor.c -lsqlite3 -o floor && ./floor store.sqlite < searches
 */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static sqlite3 *file;
static char *page;
static size_t length, room;

static sqlite3_stmt *prepared(const char *sql)
{
    sqlite3_stmt *statement;
    if (sqlite3_prepare_v3(file, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, NULL) != SQLITE_OK) {
        fprintf(stderr, "%s\n", sqlite3_errmsg(file));
        exit(1);
    }
    return statement;
}

static void add(const char *text, size_t size)
{
    if (length + size > room) page = realloc(page, room = 2 * (length + size));
    memcpy(page + length, text, size);
    length += size;
}

static void add_indented(const char *text, size_t size)
{
    const char *end = text + size;
    while (text < end) {
        const char *line = memchr(text, '\n', end - text);
        size_t part = line ? (size_t)(line - text) + 1 : (size_t)(end - text);
        add(text, part);
        if (line) add("    ", 4);
        text += part;
    }
}

static int number(const char *name)
{
    sqlite3_stmt *asked = prepared("SELECT param FROM params WHERE type = 'Observation' AND name = ?");
    sqlite3_bind_text(asked, 1, name, -1, SQLITE_STATIC);
    if (sqlite3_step(asked) != SQLITE_ROW) exit(1);
    int found = sqlite3_column_int(asked, 0);
    sqlite3_finalize(asked);
    return found;
}

int main(int count, char **words)
{
    if (count != 2 || sqlite3_open_v2(words[1], &file, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK) return 1;
    sqlite3_exec(file, "PRAGMA cache_size = -4000; PRAGMA mmap_size = 25165824", NULL, NULL, NULL); /* as the server */
    int code = number("code");
    sqlite3_stmt *rows = prepared(
        "SELECT id, text FROM (SELECT row_id FROM pairs WHERE param = ? AND target = ? AND value = ? ORDER BY row_id"
        " LIMIT ?) AS found CROSS JOIN resources ON resources.row_id = found.row_id");
    char id[128], value[128], target[160];
    int limit, asked = 0;
    long long bytes = 0;
    clock_t start = clock();
    while (scanf("%127s %127s %d", id, value, &limit) == 3) {
        snprintf(target, sizeof target, "Patient/%s", id);
        sqlite3_bind_int(rows, 1, code);
        sqlite3_bind_text(rows, 2, target, -1, SQLITE_STATIC);
        sqlite3_bind_text(rows, 3, value, -1, SQLITE_STATIC);
        sqlite3_bind_int(rows, 4, limit);
        length = 0;
        while (sqlite3_step(rows) == SQLITE_ROW) {
            static const char url[] = "{\n    \"fullUrl\": \"http://localhost:8080/fhir/Observation/";
            static const char resource[] = "\",\n    \"resource\": ";
            static const char mode[] = ",\n    \"search\": {\n      \"mode\": \"match\"\n    }\n  }, ";
            add(url, sizeof url - 1);
            add((const char *)sqlite3_column_text(rows, 0), sqlite3_column_bytes(rows, 0));
            add(resource, sizeof resource - 1);
            add_indented((const char *)sqlite3_column_text(rows, 1), sqlite3_column_bytes(rows, 1));
            add(mode, sizeof mode - 1);
        }
        sqlite3_reset(rows);
        bytes += length;
        asked++;
    }
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    printf("%.1f %lld\n", asked ? seconds / asked * 1e6 : 0, bytes);
    return 0;
}

# haul --version names the commit that was built: in a clone and in an archive of one, but not elsewhere.
# ctest: labels=once
. "$HAUL_SOURCE/tests/support/cli.sh"
command -v git >/dev/null || { echo "skipped: git is not installed"; exit 77; }
export GIT_CONFIG_GLOBAL=$PWD/gitconfig GIT_CONFIG_SYSTEM=/dev/null
unset GIT_DIR GIT_WORK_TREE
git config --global user.name "A Tester"
git config --global user.email tester@haul.invalid

run 0 --version
check "a version, perhaps a commit, and the features" \
    grep -qxE 'haul [0-9]+\.[0-9]+\.[0-9]+(-dev)?(, commit [0-9a-f]{12,}(-modified)?)? \([^()]*( \([^()]*\))*[^()]*\)' out || cat out
check "the commit is that of the build" \
    test "$(sed -n 's/.*, commit \([^ ]*\) .*/\1/p' out)" = "$(sed -n 's/.*"\(.*\)"/\1/p' "$HAUL_BUILD/commit/haul_commit.h")"

# commit_of FOLDER: what the build would write for it.
commit_of() {
    cmake -DOUT="$PWD/haul_commit.h" -DSOURCE="$PWD/$1" -P "$HAUL_SOURCE/cmake/haul_commit.cmake" || return 1
    sed -n 's/^#define HAUL_COMMIT "\(.*\)"$/\1/p' haul_commit.h
}

mkdir -p clone/cmake
cp "$HAUL_SOURCE/.gitattributes" clone
printf '$Format:%%H$\n' >clone/cmake/archived_commit # as it is in a clone
(cd clone && git init -q && git add . && git commit -qm one) || check "a repository" false
wanted=$(git -C clone rev-parse HEAD | cut -c1-12)
check "a clone" test "$(commit_of clone)" = "$wanted"
touch -d 2001-01-01 haul_commit.h
check "again" test "$(commit_of clone)" = "$wanted"
check "what is the same is not written" test "$(date -r haul_commit.h +%Y)" = 2001
echo more >>clone/.gitattributes
check "a change" test "$(commit_of clone)" = "$wanted-modified"
git -C clone checkout -q .
mkdir -p clone/vendored
git -C clone archive --prefix=archive/ HEAD | tar -x
check "an archive" test "$(commit_of archive)" = "$wanted"
cp -r clone copy && rm -r copy/.git
check "a copy of the files" test -z "$(commit_of copy)"
cp -r copy clone/vendored/haul
check "a copy in a repository" test -z "$(commit_of clone/vendored/haul)"
cp -r archive clone/vendored/archive
check "an archive in a repository" test "$(commit_of clone/vendored/archive)" = "$wanted"
finish

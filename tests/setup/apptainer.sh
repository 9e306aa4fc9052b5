#!/usr/bin/env bash
# Installs Apptainer from Debian's archive where the machine has none.
#
# A release whose C library is too old for it gets that of the next release beside it, through the programs' own interpreter and
# search path: nothing else on the machine changes.
set -euo pipefail

command -v apptainer > /dev/null && exec apptainer --version
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
chmod 755 "$folder"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq

if apt-get install -y -qq --no-install-recommends apptainer > /dev/null 2>&1; then
    exec apptainer --version
fi
apt-get install -y -qq --no-install-recommends squashfs-tools uidmap patchelf fuse3 squashfuse > /dev/null

# Lists of their own, so that the machine's sources stay as they are.
mkdir -p "$folder"/lists/partial "$folder"/cache/archives/partial "$folder"/libc
mirror=$(sed -n 's/^URIs: *//p' /etc/apt/sources.list.d/debian.sources | head -1)
cat > "$folder/debian.sources" << SOURCES
Types: deb
URIs: $mirror
Suites: trixie sid
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
SOURCES
apt_beside() {
    apt-get -qq -o Dir::Etc::sourcelist="$folder/debian.sources" -o Dir::Etc::sourceparts=- \
        -o Dir::State::lists="$folder/lists" -o Dir::Cache="$folder/cache" "$@"
}
apt_beside update
cd "$folder"
apt_beside download apptainer/sid libc6/trixie 2> /dev/null

libraries=/usr/lib/apptainer-glibc
dpkg-deb -x libc6_*.deb libc
mkdir -p "$libraries"
cp -a libc/usr/lib/x86_64-linux-gnu/*.so* "$libraries/"
dpkg-deb -R apptainer_1*.deb package
for program in package/usr/bin/apptainer package/usr/lib/x86_64-linux-gnu/apptainer/bin/starter; do
    # RPATH, not RUNPATH: the program runs itself again with another search path in its environment.
    patchelf --set-interpreter "$libraries/ld-linux-x86-64.so.2" --force-rpath --set-rpath "$libraries" "$program"
done
sed -i 's/libc6 (>= 2.38), //; s/^Version: .*/&+beside1/' package/DEBIAN/control
rm -f package/DEBIAN/md5sums
dpkg-deb -Znone -b package apptainer-beside.deb > /dev/null
apt-get install -y -qq --no-install-recommends "$folder/apptainer-beside.deb" > /dev/null
apptainer --version

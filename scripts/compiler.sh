# Sourced: chooses GCC 12 where the system's own g++ is older (Ubuntu 22.04), unless CXX says otherwise.
if [ -z "${CXX:-}" ] && command -v g++-12 >/dev/null && [ "$(g++ -dumpversion | cut -d. -f1)" -lt 12 ]; then
  export CC=gcc-12 CXX=g++-12
fi

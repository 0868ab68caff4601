# Runs in the folder with the sources' upstream archives; see vrdma_lab::image::Sources.
jobs=-j$(nproc)

# Debian builds valkey without RDMA. Its own test of it is a program of its tree.
make -C valkey/src $jobs BUILD_RDMA=yes MALLOC=libc OPTIMIZATION=-O2 valkey-server
make -C valkey/tests/rdma
mkdir /built/valkey
cp valkey/src/valkey-server valkey/tests/rdma/rdma-test /built/valkey

cd libfabric/fabtests
mkdir -p config
autoreconf --install
./configure --quiet --prefix=/built/libfabric
make --quiet $jobs
make --quiet install
cp -r test_configs /built/libfabric
rm -rf /built/libfabric/share

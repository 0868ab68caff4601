//! Other programs of librdmacm: those that meet by it without any option, and its sockets.
//!
//! `rcopy` and the web server are checked by comparing files, `riostream` checks by itself what it receives, and the
//! others tell by their status and last words that they ran to the end. Both ends of a copy need one file system, so
//! these run only on hosts.

/// Name, server, client, words.
pub(super) type Fact = (
    &'static str,
    &'static str,
    &'static str,
    &'static [&'static str],
);

pub(super) const PROGRAMS: &[Fact] = &[
    (
        "cmtime",
        "cmtime -b $A",
        "cmtime -s $A -c 50",
        &["disconnect"],
    ),
    (
        "rdma_client",
        "rdma_server",
        "rdma_client -s $A",
        &["end 0"],
    ),
    (
        "rdma_xclient",
        "rdma_xserver",
        "rdma_xclient -s $A",
        &["end 0"],
    ),
    (
        "riostream",
        "riostream -T v -S 16384 -C 10 -I 10",
        "riostream -s $A -T v -S 16384 -C 10 -I 10",
        &["16k"],
    ),
    (
        "rcopy",
        "rcopy",
        "dir=$(mktemp -d) && trap 'rm -r $dir' EXIT && head -c 9999999 /dev/urandom >$dir/in && \
         rcopy $dir/in $A:$dir/out && cmp $dir/in $dir/out && echo all is the same",
        &["all is the same"],
    ),
    (
        "sockets of openssl by librspreload",
        OPENSSL_SERVER,
        OPENSSL_CLIENT,
        &["all is the same"],
    ),
];

/// Programs that know only TCP sockets, and speak TLS over them. With `unshare` they have no network but ours. `-WWW`
/// serves the files of a folder.
const OPENSSL_SERVER: &str = "dir=/tmp/vrdma-sockets-$A && rm -rf $dir && mkdir $dir && cd $dir && \
     head -c 3000000 /dev/urandom >in && \
     openssl req -x509 -newkey rsa:2048 -nodes -keyout key -out certificate -subj /CN=vrdma -days 2 2>/dev/null && \
     LD_PRELOAD=$LD_PRELOAD:$(ls /usr/lib/*/rsocket/librspreload.so) \
     exec unshare -n openssl s_server -accept $A:4433 -key key -cert certificate -WWW";
const OPENSSL_CLIENT: &str = "dir=/tmp/vrdma-sockets-$A && trap 'rm -r $dir' EXIT && \
     printf 'GET /in HTTP/1.0\\r\\n\\r\\n' | LD_PRELOAD=$LD_PRELOAD:$(ls /usr/lib/*/rsocket/librspreload.so) \
     unshare -n openssl s_client -connect $A:4433 -quiet 2>&1 >$dir/got; \
     tail -c 3000000 $dir/got | cmp - $dir/in && echo all is the same";

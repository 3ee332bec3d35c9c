//! The server's errors, with its texts and codes.

use tonic::{Code, Status};

pub(crate) type Result<T> = std::result::Result<T, Status>;

/// An error of <https://github.com/etcd-io/etcd/blob/v3.5.16/api/v3rpc/rpctypes/error.go>.
macro_rules! errors {
    ($($name:ident: $code:ident, $text:literal;)*) => { $(
        pub(crate) fn $name() -> Status {
            Status::new(Code::$code, concat!("etcdserver: ", $text))
        }
    )* };
}

errors! {
    empty_key: InvalidArgument, "key is not provided";
    key_not_found: InvalidArgument, "key not found";
    value_provided: InvalidArgument, "value is provided";
    lease_provided: InvalidArgument, "lease is provided";
    too_many_operations: InvalidArgument, "too many operations in txn request";
    duplicate_key: InvalidArgument, "duplicate key given in txn request";
    request_too_large: InvalidArgument, "request is too large";
    compacted: OutOfRange, "mvcc: required revision has been compacted";
    future_revision: OutOfRange, "mvcc: required revision is a future revision";
    no_space: ResourceExhausted, "mvcc: database space exceeded";
    lease_not_found: NotFound, "requested lease not found";
    lease_exists: FailedPrecondition, "lease already exists";
    ttl_too_large: OutOfRange, "too large lease TTL";
}

//! Reads the keys of a lease whose names exceed 4 MiB.
//!
//! etcd-client rejects such replies about a lease, and has no option to accept them
//! (<https://github.com/etcdv3/etcd-client/blob/v0.21.1/src/rpc/lease.rs#L30>).

use etcd_client::Error;
use tonic::codegen::http::uri::PathAndQuery;
use tonic_prost::ProstCodec;

use super::{renewal::Renewer, wire::LARGEST_REPLY};

/// `LeaseTimeToLiveRequest`.
#[derive(Clone, PartialEq, prost::Message)]
struct Lease {
    #[prost(int64, tag = "1")]
    id: i64,
    #[prost(bool, tag = "2")]
    keys: bool,
}

/// `LeaseTimeToLiveResponse`.
#[derive(Clone, PartialEq, prost::Message)]
struct Keys {
    #[prost(bytes = "vec", repeated, tag = "5")]
    keys: Vec<Vec<u8>>,
}

/// Reads the keys of a lease.
pub(super) async fn read(renewer: &Renewer, lease: i64) -> Result<Vec<Vec<u8>>, Error> {
    let mut client = renewer.client().await?.max_decoding_message_size(LARGEST_REPLY);
    let request = renewer.request(Lease { id: lease, keys: true });
    let path = PathAndQuery::from_static("/etcdserverpb.Lease/LeaseTimeToLive");
    let reply = client.unary(request, path, ProstCodec::<Lease, Keys>::default()).await?;
    Ok(reply.into_inner().keys)
}

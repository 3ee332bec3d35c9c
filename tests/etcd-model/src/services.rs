//! The services of a server: keys, leases, watches, members and maintenance.

use std::pin::Pin;

use etcd_client::proto::{
    PbAlarmRequest, PbAlarmResponse, PbClusterService, PbCompactionRequest, PbCompactionResponse,
    PbDefragmentRequest, PbDefragmentResponse, PbDeleteRequest, PbDeleteResponse,
    PbDowngradeRequest, PbDowngradeResponse, PbHashKvRequest, PbHashKvResponse, PbHashRequest,
    PbHashResponse, PbKvService, PbLeaseGrantRequest, PbLeaseGrantResponse,
    PbLeaseKeepAliveRequest, PbLeaseKeepAliveResponse, PbLeaseLeasesRequest, PbLeaseLeasesResponse,
    PbLeaseRevokeRequest, PbLeaseRevokeResponse, PbLeaseService, PbLeaseTimeToLiveRequest,
    PbLeaseTimeToLiveResponse, PbMaintenanceService, PbMemberAddRequest, PbMemberAddResponse,
    PbMemberListRequest, PbMemberListResponse, PbMemberPromoteRequest, PbMemberPromoteResponse,
    PbMemberRemoveRequest, PbMemberRemoveResponse, PbMemberUpdateRequest, PbMemberUpdateResponse,
    PbMoveLeaderRequest, PbMoveLeaderResponse, PbPutRequest, PbPutResponse, PbRangeRequest,
    PbRangeResponse, PbRangeStreamResponse, PbSnapshotRequest, PbSnapshotResponse, PbStatusRequest,
    PbStatusResponse, PbTxnRequest, PbTxnResponse, PbWatchRequest, PbWatchResponse, PbWatchService,
};
use futures_util::{Stream, stream};
use tokio::sync::mpsc;
use tonic::{Request, Response, Status, Streaming, async_trait};

use crate::{
    front::{Needs, Shared},
    txn,
};

type Reply<T> = Result<Response<T>, Status>;
type Replies<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// Returns the error for requests that neither distlock nor its tests make.
fn left_out<T>() -> Reply<T> {
    Err(Status::unimplemented("not part of the etcd model"))
}

/// Returns what a read needs.
fn read(is_local: bool) -> Needs {
    if is_local { Needs::State } else { Needs::Log }
}

fn stream_of<T: Send + 'static>(
    mut replies: mpsc::UnboundedReceiver<Result<T, Status>>,
) -> Response<Replies<T>> {
    Response::new(Box::pin(stream::poll_fn(move |context| replies.poll_recv(context))))
}

#[async_trait]
impl PbKvService for Shared {
    async fn range(&self, request: Request<PbRangeRequest>) -> Reply<PbRangeResponse> {
        self.call("Range", read(request.get_ref().serializable), |model| {
            model.range(request.get_ref())
        })
        .await
    }

    async fn put(&self, request: Request<PbPutRequest>) -> Reply<PbPutResponse> {
        self.call("Put", Needs::Log, |model| model.put(request.get_ref())).await
    }

    async fn delete_range(&self, request: Request<PbDeleteRequest>) -> Reply<PbDeleteResponse> {
        self.call("DeleteRange", Needs::Log, |model| model.delete_range(request.get_ref())).await
    }

    async fn txn(&self, request: Request<PbTxnRequest>) -> Reply<PbTxnResponse> {
        self.call("Txn", read(txn::is_local(request.get_ref())), |model| {
            model.txn(request.get_ref())
        })
        .await
    }

    async fn compact(&self, request: Request<PbCompactionRequest>) -> Reply<PbCompactionResponse> {
        self.call("Compact", Needs::Log, |model| model.compact(request.get_ref())).await
    }

    type RangeStreamStream = Replies<PbRangeStreamResponse>;

    async fn range_stream(&self, _: Request<PbRangeRequest>) -> Reply<Self::RangeStreamStream> {
        left_out()
    }
}

#[async_trait]
impl PbLeaseService for Shared {
    async fn lease_grant(
        &self,
        request: Request<PbLeaseGrantRequest>,
    ) -> Reply<PbLeaseGrantResponse> {
        self.call("LeaseGrant", Needs::Log, |model| model.lease_grant(request.get_ref())).await
    }

    async fn lease_revoke(
        &self,
        request: Request<PbLeaseRevokeRequest>,
    ) -> Reply<PbLeaseRevokeResponse> {
        self.call("LeaseRevoke", Needs::Log, |model| model.lease_revoke(request.get_ref())).await
    }

    type LeaseKeepAliveStream = Replies<PbLeaseKeepAliveResponse>;

    async fn lease_keep_alive(
        &self,
        request: Request<Streaming<PbLeaseKeepAliveRequest>>,
    ) -> Reply<Self::LeaseKeepAliveStream> {
        let shared = self.clone();
        let replies = stream::unfold(request.into_inner(), move |mut requests| {
            let shared = shared.clone();
            async move {
                let request = requests.message().await.ok()??;
                Some((Ok(shared.keep_alive(&request)), requests))
            }
        });
        Ok(Response::new(Box::pin(replies)))
    }

    async fn lease_time_to_live(
        &self,
        request: Request<PbLeaseTimeToLiveRequest>,
    ) -> Reply<PbLeaseTimeToLiveResponse> {
        self.call("LeaseTimeToLive", Needs::Leader, |model| {
            Ok(model.lease_time_to_live(request.get_ref()))
        })
        .await
    }

    async fn lease_leases(&self, _: Request<PbLeaseLeasesRequest>) -> Reply<PbLeaseLeasesResponse> {
        self.call("LeaseLeases", Needs::State, |model| Ok(model.lease_leases())).await
    }
}

#[async_trait]
impl PbWatchService for Shared {
    type WatchStream = Replies<PbWatchResponse>;

    async fn watch(&self, request: Request<Streaming<PbWatchRequest>>) -> Reply<Self::WatchStream> {
        let (sender, replies) = mpsc::unbounded_channel();
        let closed = sender.clone();
        let stream = self.open_stream(sender);
        let (shared, mut requests) = (self.clone(), request.into_inner());
        tokio::spawn(async move {
            while let Ok(Some(request)) = requests.message().await {
                shared.watch(stream, request);
            }
            // A client that has only stopped sending still receives messages.
            closed.closed().await;
            shared.close_stream(stream);
        });
        Ok(stream_of(replies))
    }
}

#[async_trait]
impl PbClusterService for Shared {
    async fn member_list(&self, _: Request<PbMemberListRequest>) -> Reply<PbMemberListResponse> {
        self.call("MemberList", Needs::Log, |model| Ok(model.member_list())).await
    }

    async fn member_add(&self, _: Request<PbMemberAddRequest>) -> Reply<PbMemberAddResponse> {
        left_out()
    }

    async fn member_remove(
        &self,
        _: Request<PbMemberRemoveRequest>,
    ) -> Reply<PbMemberRemoveResponse> {
        left_out()
    }

    async fn member_update(
        &self,
        _: Request<PbMemberUpdateRequest>,
    ) -> Reply<PbMemberUpdateResponse> {
        left_out()
    }

    async fn member_promote(
        &self,
        _: Request<PbMemberPromoteRequest>,
    ) -> Reply<PbMemberPromoteResponse> {
        left_out()
    }
}

#[async_trait]
impl PbMaintenanceService for Shared {
    async fn alarm(&self, request: Request<PbAlarmRequest>) -> Reply<PbAlarmResponse> {
        self.call("Alarm", Needs::Log, |model| Ok(model.alarm(request.get_ref()))).await
    }

    async fn status(&self, _: Request<PbStatusRequest>) -> Reply<PbStatusResponse> {
        self.call("Status", Needs::State, |model| Ok(model.status())).await
    }

    async fn defragment(&self, _: Request<PbDefragmentRequest>) -> Reply<PbDefragmentResponse> {
        left_out()
    }

    async fn hash(&self, _: Request<PbHashRequest>) -> Reply<PbHashResponse> {
        left_out()
    }

    async fn hash_kv(&self, _: Request<PbHashKvRequest>) -> Reply<PbHashKvResponse> {
        left_out()
    }

    type SnapshotStream = Replies<PbSnapshotResponse>;

    async fn snapshot(&self, _: Request<PbSnapshotRequest>) -> Reply<Self::SnapshotStream> {
        left_out()
    }

    async fn move_leader(&self, _: Request<PbMoveLeaderRequest>) -> Reply<PbMoveLeaderResponse> {
        left_out()
    }

    async fn downgrade(&self, _: Request<PbDowngradeRequest>) -> Reply<PbDowngradeResponse> {
        left_out()
    }
}

//! An etcd whose space is used up by stored data.

use std::cell::Cell;

use distlock_testkit::docker::OwnEtcd;
use etcd_client::{AlarmAction, AlarmOptions, AlarmType, CompactionOptions};

use crate::etcd::{full::refuses_locks_and_takes_releases, hung::serves};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_etcd_refuses_locks_and_takes_releases() {
    let etcd = OwnEtcd::start(&["--data-dir=/tmp/etcd", "--quota-backend-bytes=4194304"]).await;
    serves(etcd.address).await;
    let stuffed = Cell::new(0);
    let fill = async |raw: &mut etcd_client::Client| {
        while raw.put(format!("stuff-{}", stuffed.get()), vec![0; 1 << 20], None).await.is_ok() {
            stuffed.set(stuffed.get() + 1);
            assert!(stuffed.get() < 20, "etcd is never full");
        }
    };
    let make_room = async |raw: &mut etcd_client::Client| {
        for stuff in 0..stuffed.get() {
            raw.delete(format!("stuff-{stuff}"), None).await.unwrap();
        }
        let revision = raw.get("any", None).await.unwrap().header().unwrap().revision();
        raw.compact(revision, Some(CompactionOptions::new().with_physical())).await.unwrap();
        raw.defragment().await.unwrap();
        let member = raw.status().await.unwrap().header().unwrap().member_id();
        let mut options = AlarmOptions::new();
        options.with_member(member);
        raw.alarm(AlarmAction::Deactivate, AlarmType::Nospace, Some(options)).await.unwrap();
    };
    refuses_locks_and_takes_releases(etcd.address, fill, make_room).await;
}

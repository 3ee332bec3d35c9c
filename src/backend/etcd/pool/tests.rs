use super::*;

/// Returns a pool whose connections send nothing.
fn pool(endpoints: usize) -> Pool {
    Pool::new(Remote::plain(vec!["127.0.0.1:1".to_owned(); endpoints]))
}

/// Of several requests on a dead connection, the last may fail long after the first, when a newer
/// connection is already in use.
#[tokio::test]
async fn late_failure_keeps_newer_connection() {
    for endpoints in [1, 2] {
        let pool = pool(endpoints);
        let mut current = pool.watch_current();
        // From the next endpoint, this leads to the first one again.
        let ahead = endpoints - 1;
        let old = pool.pick(0).await.unwrap();
        pool.leave(&old);
        assert!(current.has_changed().unwrap(), "the first failure counts");
        current.mark_unchanged();
        let new = pool.pick(ahead).await.unwrap();
        assert_eq!(new.index, old.index);
        assert!(!Arc::ptr_eq(&new.client, &old.client));
        for _ in 0..2 {
            drop(pool.refused(&old, Cause::ProcessStall));
            let again = pool.pick(ahead).await.unwrap();
            assert!(Arc::ptr_eq(&again.client, &new.client), "{endpoints} endpoints");
        }
        assert!(!current.has_changed().unwrap(), "no watch is broken");
        pool.leave(&new);
        let next = pool.pick(ahead).await.unwrap();
        assert!(!Arc::ptr_eq(&next.client, &new.client), "{endpoints} endpoints");
    }
}

; Why the properties hold. Each step preserves the conjunction of these sentences.

; The store.

(invariant none-is-no-key
  "The name for no key is not the name of a key."
  (= (born none) 0))

(invariant numbers
  "A key is created once, and deleted at most once, after that."
  (forall ((k Key))
    (and (<= 0 (born k)) (<= (born k) latest) (<= 0 (gone k)) (<= (gone k) latest)
         (=> (not (= (gone k) 0)) (and (< 0 (born k)) (< (born k) (gone k)))))))

(invariant newest
  "No key joined after the newest one."
  (and (or (= newest none) (< 0 (born newest)))
       (forall ((k Key)) (<= (born k) (born newest)))))

(invariant distinct
  "Two keys have different numbers."
  (forall ((j Key) (k Key)) (=> (and (< 0 (born j)) (= (born j) (born k))) (= j k))))

(invariant one-key
  "An attempt has one key at a time."
  (forall ((j Key) (k Key)) (=> (and (there j) (there k) (= (owner j) (owner k))) (= j k))))

(invariant ended-without-keys
  "A session that the store has ended has no key."
  (forall ((k Key)) (=> (there k) (not (ended (session (owner k)))))))

(invariant none-before-token
  "No key in the queue joined before one that has been granted."
  (and (<= 0 token) (<= token latest)
       (forall ((k Key)) (=> (there k) (<= token (born k))))))

; Time.

(invariant trusted
  "A client does not trust its session for longer than the store keeps it."
  (forall ((s Session)) (within (deadline s) s (expiry s))))

(invariant to-be-trusted
  "Nor will it, when it receives the reply to a keepalive."
  (forall ((b Keepalive))
    (=> (= (message b) Applied) (within (+ (sent b) (counts b)) (by b) (expiry (by b))))))

(invariant sent-before
  "A keepalive was sent in the past."
  (forall ((b Keepalive)) (=> (not (= (message b) Unsent)) (<= (sent b) (clock (by b))))))

(invariant ended-at-expiry
  "The store ends a session after its expiry, unless the client has given it up."
  (forall ((s Session)) (=> (ended s) (or (over s) (<= (expiry s) now)))))

(invariant holder-in-time
  "The deadline of a holder has not passed."
  (forall ((a Attempt)) (=> (holds a) (< (clock (session a)) (deadline (session a))))))

; What a client knows.

(invariant own-key
  "The key that an attempt knows as its own is its key, and a reply has shown it."
  (forall ((a Attempt))
    (and (<= 0 (learnt a))
         (<= (learnt a) latest)
         (=> (or (= (stage a) Idle) (= (stage a) Doubt)) (= (own a) none))
         (=> (not (= (own a) none)) (and (< 0 (born (own a))) (= (owner (own a)) a)))
         (=> (active a) (and (not (= (own a) none)) (<= (born (own a)) (learnt a)))))))

(invariant own-key-exists
  "It exists, unless an operator deleted it or the store has ended the session."
  (forall ((a Attempt))
    (=> (active a) (or (there (own a)) (evicted (own a)) (ended (session a))))))

(invariant predecessor
  "The predecessor joined before, and an attempt watches only a predecessor."
  (forall ((a Attempt))
    (=> (waits a)
        (and (=> (not (= (ahead a) none)) (before (ahead a) (own a)))
             (=> (or (= (stage a) Behind) (= (stage a) Watching)) (not (= (ahead a) none)))))))

(invariant nearest
  "No key exists between it and the attempt's key. If it is unseen, none has ever existed."
  (forall ((a Attempt) (j Key))
    (=> (and (waits a) (not (= (ahead a) none)) (before (ahead a) j) (before j (own a)))
        (and (saw a) (gone-by j (learnt a))))))

(invariant alone
  "No key exists before a predecessor that was seen alone, or was alone when the attempt joined."
  (forall ((a Attempt) (j Key))
    (=> (and (waits a) (not (= (ahead a) none)) (alone a) (before j (ahead a))
             (or (saw a) (exists-at (ahead a) (born (own a)))))
        (gone-by j (learnt a)))))

(invariant joined
  "The reply to the request to join shows the attempt's key."
  (forall ((a Attempt)) (=> (= (stage a) Joined) (exists-at (own a) (learnt a)))))

(invariant first-when-joined
  "If that reply names no predecessor, no key exists before the attempt's key."
  (forall ((a Attempt) (j Key))
    (=> (and (= (stage a) Joined) (= (ahead a) none) (before j (own a)))
        (gone-by j (learnt a)))))

(invariant watched
  "The predecessor existed when the watch began."
  (forall ((a Attempt)) (=> (= (stage a) Watching) (exists-at (ahead a) (learnt a)))))

; Holders.

(invariant holder-token
  "No holder's token is above the highest one."
  (forall ((a Attempt)) (=> (= (stage a) Holding) (<= (born (own a)) token))))

(invariant excused
  "A holder is excused if an operator deleted its key."
  (forall ((a Attempt)) (=> (and (= (stage a) Holding) (evicted (own a))) (excused a))))

(invariant no-violation
  "No grant was early or out of order, and no alarm was false."
  (and (not early) (not disorder) (not alarm)))

; Leftovers.

(invariant idle
  "An attempt that has not begun has no key."
  (forall ((k Key))
    (=> (= (stage (owner k)) Idle) (= (born k) 0))))

(invariant in-doubt
  "Each attempt in doubt knows that it is, and searches after its end as long as a request is late."
  (forall ((a Attempt))
    (and (=> (or (late a) (= (stage a) Doubt)) (doubtful a))
         (=> (late a) (not (= (stage a) Idle)))
         (=> (and (late a) (= (stage a) Ended)) (searches a)))))

(invariant leaving
  "Only an attempt that has ended or is about to end deletes its keys."
  (forall ((a Attempt))
    (and (=> (late-leave a) (or (= (stage a) Leaving) (= (stage a) Ended)))
         (=> (searches a) (= (stage a) Ended)))))

(invariant accounted
  "Each key of a live session belongs to a live attempt, or its client searches for it."
  (forall ((k Key)) (=> (and (there k) (works (owner k))) (accounted k))))

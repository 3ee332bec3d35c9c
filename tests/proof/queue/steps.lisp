; What can happen. A step is possible `when` all of its conditions hold, and `then` changes what is
; named. All other variables keep their values. `(rule NAME CONDITION)` is a condition only with
; that rule, and `(with-rule NAME X Y)` is X with the rule and Y without it.

(effect (grant (a Attempt) (r Number))
  (set (stage a) Holding)
  (set (learnt a) r)
  (set token (ite (< token (born (own a))) (born (own a)) token))
  (set (excused a) (and (evicted (own a)) (exists-at (own a) r)))
  (set early (or early (not (nothing-before (own a) latest))))
  (set disorder (or disorder (and (< (born (own a)) token)
                                  (not (and (evicted (own a)) (exists-at (own a) r)))))))
(effect (end (a Attempt))
  (set (stage a) Ended)
  (set (searches a) (with-rule look-again (doubtful a) false)))

; Joining.

(step join ((a Attempt) (k Key) (p Key) (f Bool))
  "requests to join; the reply is sent"
  (when (or (= (stage a) Idle) (= (stage a) Doubt))
        (works a)
        (not (ended (session a)))
        (unused k a)
        (rule one-key (keyless a))
        ; The reply names the key that joined before, even if that is deleted.
        (or (= p newest) (and (= p none) (forall ((j Key)) (not (there j)))))
        (=> f (forall ((i Key) (j Key)) (=> (and (there i) (there j)) (= i j)))))
  (then (set latest (+ latest 1))
        (set (born k) (+ latest 1))
        (set newest k)
        (set (stage a) Joined)
        (set (own a) k)
        (set (ahead a) p)
        (set (alone a) f)
        (set (saw a) false)
        (set (learnt a) (+ latest 1))))

(step join-again ((a Attempt) (k Key) (p Key) (f Bool))
  "requests to join again; the reply is sent"
  (when (= (stage a) Doubt)
        (works a)
        (there k)
        (= (owner k) a)
        (nearest p k latest)
        (=> f (nothing-before p latest)))
  (then (set (stage a) Joined)
        (set (own a) k)
        (set (ahead a) p)
        (set (alone a) f)
        (set (saw a) true)
        (set (learnt a) latest)))

(step join-late ((a Attempt))
  "requests to join; the request is delayed, and considered lost"
  (when (or (= (stage a) Idle) (= (stage a) Doubt))
        (works a))
  (then (set (stage a) Doubt)
        (set (doubtful a) true)
        (set (late a) true)))

(step apply-late ((a Attempt) (k Key) (f Bool))
  "'s late request to join is applied"
  (when (late a)
        (not (ended (session a)))
        (unused k a)
        (rule one-key (keyless a)))
  (then (set latest (+ latest 1))
        (set (born k) (+ latest 1))
        (set newest k)
        ; Another one may be under way.
        (set (late a) f)))

(step drop-late ((a Attempt))
  "'s late request to join is lost for good"
  (when (late a))
  (then (set (late a) false)))

(step lose-reply ((a Attempt))
  "gets no reply"
  (when (= (stage a) Joined)
        (works a))
  (then (set (stage a) Doubt)
        (set (doubtful a) true)
        (set (own a) none)))

(step learn-behind ((a Attempt))
  "learns that a key is ahead"
  (when (= (stage a) Joined)
        (works a)
        (not (= (ahead a) none)))
  (then (set (stage a) Behind)))

(step learn-first ((a Attempt))
  "learns that no key is ahead; it is granted"
  (when (= (stage a) Joined)
        (works a)
        (= (ahead a) none)
        (in-time a))
  (then (grant a (learnt a))))

(step learn-unproved ((a Attempt))
  "learns that no key is ahead, and has to renew its session first"
  (when (= (stage a) Joined)
        (works a)
        (= (ahead a) none))
  (then (set (stage a) Woken)))

; Waiting.

(step watch ((a Attempt) (r Number))
  "watches its predecessor's key"
  (when (= (stage a) Behind)
        (works a)
        (readable a r)
        (rule missing-reported (exists-at (ahead a) r)))
  (then (set (stage a) Watching)
        (set (saw a) (or (saw a) (exists-at (ahead a) r)))
        (set (learnt a) r)))

(step watch-missing ((a Attempt) (r Number))
  "tries to watch its predecessor's key, which is deleted"
  (when (= (stage a) Behind)
        (works a)
        (readable a r)
        (not (exists-at (ahead a) r)))
  (then (set (stage a) Woken)
        (set (learnt a) r)))

(step notify ((a Attempt) (r Number))
  "is notified that its predecessor's key is deleted"
  (when (= (stage a) Watching)
        (works a)
        (< (learnt a) r)
        (<= r latest)
        (exists-at (ahead a) (learnt a))
        (not (exists-at (ahead a) r)))
  (then (set (stage a) Woken)
        (set (learnt a) r)))

(step hint ((a Attempt))
  "is woken without a reason"
  (when (or (= (stage a) Behind) (= (stage a) Watching))
        (works a))
  (then (set (stage a) Woken)))

(step grant-gone ((a Attempt) (r Number))
  "reads both keys, and is granted"
  (when (= (stage a) Woken)
        (works a)
        (readable a r)
        (rule own-key (exists-at (own a) r))
        (not (= (ahead a) none))
        (not (exists-at (ahead a) r))
        (rule first (alone a))
        (rule seen (saw a))
        (in-time a))
  (then (grant a r)))

(step grant-first ((a Attempt) (r Number))
  "reads the queue, and is granted"
  (when (= (stage a) Woken)
        (works a)
        (readable a r)
        (rule own-key (exists-at (own a) r))
        (nothing-before (own a) r)
        (in-time a))
  (then (grant a r)))

(step stay-behind ((a Attempt) (p Key) (f Bool) (r Number))
  "reads the queue"
  (when (= (stage a) Woken)
        (works a)
        (readable a r)
        (rule own-key (exists-at (own a) r))
        (not (= p none))
        (nearest p (own a) r)
        (=> f (nothing-before p r)))
  (then (set (stage a) Behind)
        (set (ahead a) p)
        (set (alone a) f)
        (set (saw a) true)
        (set (learnt a) r)))

(step find-evicted ((a Attempt) (r Number))
  "reads that its key is deleted, and ends"
  (when (or (= (stage a) Watching) (= (stage a) Woken) (= (stage a) Holding))
        (works a)
        (readable a r)
        (not (exists-at (own a) r)))
  (then (set alarm (or alarm (there (own a))))
        (end a)))

; Leaving: a release, a cancel, or a repeated request for one of them.

(define (leaves (a Attempt))
  (and (works a) (or (= (stage a) Doubt) (= (stage a) Behind) (= (stage a) Watching)
                     (= (stage a) Woken) (= (stage a) Holding) (= (stage a) Leaving))))

(step leave ((a Attempt))
  "deletes its key, and the deletion is confirmed"
  (when (leaves a))
  (then (set latest (+ latest 1))
        (each (k Key) (set (gone k) (ite (named k a) (+ latest 1) (gone k))))
        (end a)))

(step lose-leave ((a Attempt))
  "requests to delete its key; there is no reply"
  (when (leaves a))
  (then (set (stage a) (with-rule until-confirmed Leaving Ended))
        (set (searches a)
             (with-rule until-confirmed (searches a) (with-rule look-again (doubtful a) false)))
        (set (late-leave a) true)))

(step apply-leave ((a Attempt))
  "'s late request to delete its key is applied"
  (when (late-leave a))
  (then (set latest (+ latest 1))
        (each (k Key) (set (gone k) (ite (named k a) (+ latest 1) (gone k))))))

(step search ((a Attempt))
  "searches for its leftover keys, and deletes them"
  (when (searches a)
        (works a))
  (then (set latest (+ latest 1))
        (set cleaned (or cleaned (not (keyless a))))
        (each (k Key) (set (gone k) (ite (and (there k) (= (owner k) a)) (+ latest 1) (gone k))))
        (set (searches a) (late a))))

; The session.

(step send ((b Keepalive))
  "is sent"
  (when (= (message b) Unsent)
        (not (over (by b))))
  (then (set (message b) Sent)
        (set (sent b) (clock (by b)))))

(step renew ((b Keepalive))
  "is applied; the reply is sent"
  (when (= (message b) Sent)
        (not (ended (by b))))
  (then (set (message b) Applied)
        (set (expiry (by b))
             (ite (< (expiry (by b)) (+ now (lasts b))) (+ now (lasts b)) (expiry (by b))))))

(step confirm ((b Keepalive) (t Time))
  "is confirmed"
  (when (= (message b) Applied)
        (not (over (by b)))
        (= t (+ (with-rule from-sending (sent b) (clock (by b))) (counts b))))
  (then (set (deadline (by b)) (ite (< (deadline (by b)) t) t (deadline (by b))))))

(step lose ((s Session))
  "'s client gives the session up"
  (when (not (over s)))
  (then (set (over s) true)))

(step expire ((s Session))
  "is ended by the store"
  (when (not (ended s))
        (or (over s) (<= (expiry s) now)))
  (then (set latest (+ latest 1))
        (set (ended s) true)
        (each (k Key) (set (gone k) (ite (and (there k) (= (session (owner k)) s))
                                         (+ latest 1)
                                         (gone k))))))

; Other parties.

(step delete ((k Key))
  "is deleted by an operator"
  (when (there k))
  (then (set latest (+ latest 1))
        (set (gone k) (+ latest 1))
        (set (evicted k) true)
        (each (a Attempt) (set (excused a)
                               (or (excused a) (and (= (stage a) Holding) (= (own a) k)))))))

(step tick ()
  "time passes"
  (choose now clock)
  (when (<= now (next now))
        (forall ((s Session)) (<= (+ (* fast (clock s)) (* slow (next now)))
                                  (+ (* fast (next (clock s))) (* slow now))))
        ; At its deadline, a holder's session is lost: see the step lose.
        (rule ends-at-deadline
          (forall ((a Attempt)) (=> (holds a)
                                    (< (next (clock (session a))) (deadline (session a))))))))

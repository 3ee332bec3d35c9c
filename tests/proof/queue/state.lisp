; The lock's algorithm on a store that keeps a queue, for any number of clients, keys and faults.
;
; This file contains the state, steps.lisp what can happen, properties.lisp what must hold, and
; invariant.lisp why it holds. A `constant` has the same value in all states of a history.

; The rules, as in docs/design/model.md. (rule NAME CONDITION) is part of a step only with the rule.

(rules
  (from-sending "The deadline is measured from when the keepalive was sent.")
  (ends-at-deadline "A holder stops at its deadline.")
  (proved-grant "No grant after the deadline.")
  (missing-reported "A watch on a deleted key reports the deletion.")
  (own-key "The read that grants the lock also shows the waiter's own key.")
  (first "A predecessor's deletion grants the lock only if the predecessor was first.")
  (seen "A predecessor's deletion grants the lock only if its key was seen after joining.")
  (not-behind "No read is older than the waiter's last reply.")
  (one-key "A repeated request to join creates no second key.")
  (until-confirmed "A release is repeated until the store confirms it.")
  (look-again "After an unknown outcome, the client searches for a leftover key.")
  (allowance "The deadline allows for clocks that run at different speeds."))

(sorts Session Attempt Key Keepalive)
(enum Stage Idle Doubt Joined Behind Watching Woken Holding Leaving Ended)
(enum Message Unsent Sent Applied)

; The store. Each write makes a revision. A key's number is the revision that created it: its place
; in the queue and its token.

(constant none () Key "No key, where a key is expected.")
(constant owner (Key) Attempt "The attempt that may create this key.")
(variable latest () Number "The latest revision.")
(variable newest () Key "The newest key.")
(variable born (Key) Number "The revision that created the key; 0: not yet created.")
(variable gone (Key) Number "The revision that deleted the key; 0: not deleted.")
(variable evicted (Key) Bool "An operator deleted the key.")

; Time. `now` is the store's clock. While it advances by `fast`, the clock of a client advances by
; `slow` or more.

(variable now () Time "The store's clock.")
(variable clock (Session) Time "The clock of the session's client.")
(variable expiry (Session) Time "The store keeps the session until then, by its clock.")
(variable deadline (Session) Time "The client trusts its session until then, by its clock.")
(variable ended (Session) Bool "The store has ended the session and deleted its keys.")
(variable over (Session) Bool "The client does not use the session any longer.")

(constant by (Keepalive) Session "The session that the keepalive renews.")
(constant lasts (Keepalive) Time "For how long the store keeps the session then.")
(constant counts (Keepalive) Time "For how long the client trusts the session then.")
(variable message (Keepalive) Message "Where the keepalive is.")
(variable sent (Keepalive) Time "When it was sent, by the client's clock.")

; The attempts of clients to hold the lock.

(constant session (Attempt) Session "The attempt's session.")
(variable stage (Attempt) Stage "How far the attempt is.")
(variable own (Attempt) Key "The key that it knows as its own.")
(variable ahead (Attempt) Key "Its predecessor.")
(variable alone (Attempt) Bool "No key was ahead of the predecessor.")
(variable saw (Attempt) Bool "The predecessor was seen after this attempt joined.")
(variable learnt (Attempt) Number "The latest revision that a reply showed.")
(variable doubtful (Attempt) Bool "A request to join has had an unknown outcome.")
(variable late (Attempt) Bool "That request may still be applied.")
(variable late-leave (Attempt) Bool "A request to delete the key may still be applied.")
(variable searches (Attempt) Bool "The attempt has ended, and its client searches for its keys.")

; Records for the properties.

(variable token () Number "The highest token of a grant.")
(variable excused (Attempt) Bool "An operator deleted its key after the read that granted.")
(variable early () Bool "It was granted while a key was ahead.")
(variable disorder () Bool "It was granted after a key that joined later.")
(variable alarm () Bool "It concluded that an existing key is deleted.")
(variable cleaned () Bool "A search found a key.")

(axiom (forall ((b Keepalive)) (and (<= 0 (counts b)) (<= (counts b) (lasts b)))))
(axiom (rule allowance (forall ((b Keepalive)) (<= (* fast (counts b)) (* slow (lasts b))))))

(define (exists-at (k Key) (r Number))
  (and (< 0 (born k)) (<= (born k) r) (or (= (gone k) 0) (< r (gone k)))))
(define (there (k Key)) (and (< 0 (born k)) (= (gone k) 0)))
(define (before (j Key) (k Key)) (and (< 0 (born j)) (< (born j) (born k))))
(define (gone-by (k Key) (r Number)) (and (not (= (gone k) 0)) (<= (gone k) r)))
(define (unused (k Key) (a Attempt)) (and (not (= k none)) (= (born k) 0) (= (owner k) a)))
(define (keyless (a Attempt)) (forall ((j Key)) (not (and (there j) (= (owner j) a)))))
; The nearest key ahead of k at revision r is p, or none.
(define (nearest (p Key) (k Key) (r Number))
  (and (or (= p none) (and (exists-at p r) (before p k)))
       (forall ((j Key)) (=> (and (exists-at j r) (before j k))
                             (and (not (= p none)) (<= (born j) (born p)))))))
(define (nothing-before (k Key) (r Number))
  (forall ((j Key)) (not (and (exists-at j r) (before j k)))))
; Deletes what the request of this attempt names: its key, or all keys with its ticket.
(define (named (k Key) (a Attempt))
  (and (there k) (ite (= (own a) none) (= (owner k) a) (= k (own a)))))

(define (waits (a Attempt))
  (or (= (stage a) Joined) (= (stage a) Behind) (= (stage a) Watching) (= (stage a) Woken)))
(define (active (a Attempt)) (or (waits a) (= (stage a) Holding)))
(define (works (a Attempt)) (not (over (session a))))
(define (holds (a Attempt)) (and (= (stage a) Holding) (works a)))
(define (readable (a Attempt) (r Number))
  (and (<= 0 r) (<= r latest) (rule not-behind (<= (learnt a) r))))
(define (in-time (a Attempt))
  (rule proved-grant (< (clock (session a)) (deadline (session a)))))
; The clock of s is right as far as time t of its client is not after time e of the store.
(define (within (t Time) (s Session) (e Time))
  (<= (+ (* fast t) (* slow now)) (+ (* slow e) (* fast (clock s)))))

(initially
  (= latest 0) (= newest none) (= token 0) (= now 0)
  (not early) (not disorder) (not alarm) (not cleaned)
  (forall ((k Key)) (and (= (born k) 0) (= (gone k) 0) (not (evicted k))))
  (forall ((s Session)) (and (<= 0 (clock s)) (<= 0 (deadline s)) (<= 0 (expiry s))
                             (within (deadline s) s (expiry s))
                             (not (ended s)) (not (over s))))
  (forall ((b Keepalive)) (= (message b) Unsent))
  (forall ((a Attempt)) (and (= (stage a) Idle) (= (own a) none) (= (ahead a) none)
                             (= (learnt a) 0)
                             (not (doubtful a)) (not (late a)) (not (late-leave a))
                             (not (searches a)) (not (excused a)))))

; What must hold in each state, and what must be possible.

(property exclusion
  "Two holders are valid at once only if an operator deleted the key of one of them."
  (forall ((a Attempt) (b Attempt))
    (=> (and (holds a) (holds b) (not (= a b))) (or (excused a) (excused b)))))

(property no-early-grant
  "No key is ahead at a grant."
  (not early))

(property grants-in-order
  "Tokens rise, except that of a grant whose key an operator deletes while it is under way."
  (not disorder))

(property no-false-alarm
  "No client concludes that an existing key is gone."
  (not alarm))

(property no-lost-wake-up
  "A client that waits for the deletion of a key has seen this key, so the event will come."
  (forall ((a Attempt)) (=> (= (stage a) Watching) (exists-at (ahead a) (learnt a)))))

(define (accounted (k Key))
  (or (searches (owner k))
      (= (stage (owner k)) Doubt)
      (and (or (active (owner k)) (= (stage (owner k)) Leaving))
           (or (= (own (owner k)) k)
               ; It does not know its key, and names all of them.
               (= (own (owner k)) none)
               ; A key behind its own key blocks no waiter until that is deleted, and is then
               ; searched for.
               (and (doubtful (owner k)) (before (own (owner k)) k))))))
(property no-orphan
  "Each key of a live session belongs to a live attempt, or its client searches for it."
  (forall ((k Key)) (=> (and (there k) (works (owner k))) (accounted k))))

; A client takes no further step by itself: it waits for an event, and none is under way.
(define (rests (a Attempt))
  (and (works a)
       (not (searches a))
       (not (late a))
       (or (= (stage a) Idle)
           (= (stage a) Ended)
           (and (= (stage a) Watching)
                (there (own a))
                (or (there (ahead a)) (not (exists-at (ahead a) (learnt a))))))))
(property no-stranded-waiter
  "The owner of the first key in the queue has a step to take, or its session ends."
  (forall ((k Key)) (=> (and (there k) (nothing-before k latest)) (not (rests (owner k))))))

(situation handover
  "A client that had to wait holds the lock, while the earlier holder's session lives."
  (exists ((a Attempt))
    (and (holds a) (not (= (ahead a) none)) (saw a)
         (= (stage (owner (ahead a))) Ended)
         (= (born (ahead a)) 1)
         (not (evicted (ahead a)))
         (not (ended (session (owner (ahead a))))))))

(situation expiry-with-successor
  "A client that had to wait holds the lock, after the session of a holder has ended."
  (exists ((a Attempt))
    (and (holds a) (not (= (ahead a) none))
         (= (stage (owner (ahead a))) Holding)
         (ended (session (owner (ahead a)))))))

(situation cancel-in-the-middle
  "A waiter has left the queue, and the waiter behind it is behind another key."
  (exists ((a Attempt) (k Key))
    (and (= (stage a) Behind) (saw a) (there (own a)) (there (ahead a))
         (before (ahead a) k) (before k (own a)) (not (there k)) (not (evicted k))
         (not (ended (session (owner k)))))))

(situation late-write-cleaned-up
  "A search finds the key of a late request."
  cleaned)

(situation deletion-of-a-holders-key
  "An operator deletes the key of a holder."
  (exists ((a Attempt)) (and (holds a) (excused a))))

(situation grant-before-notice
  "The next waiter is granted before a holder notices that its key was deleted."
  (exists ((a Attempt) (b Attempt)) (and (holds a) (holds b) (not (= a b)))))

(situation renewal
  "A holder whose first deadline has passed is valid, because of a keepalive."
  (exists ((a Attempt) (b Keepalive))
    (and (holds a) (= (by b) (session a)) (= (message b) Applied)
         (= (deadline (session a)) (+ (sent b) (counts b)))
         (< (sent b) (clock (session a))))))

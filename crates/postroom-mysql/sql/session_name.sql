-- Held as long as the session lives: others see by it that this owner is gone, before its lease has run out.
select coalesce(get_lock(?, 0), 0)

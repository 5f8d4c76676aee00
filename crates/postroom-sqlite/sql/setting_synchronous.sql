select case synchronous when 0 then 'off' when 1 then 'normal' when 2 then 'full' else 'extra' end from pragma_synchronous

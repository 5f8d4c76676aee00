show global status like 'Questions'
